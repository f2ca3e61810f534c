"""A number of parameters stands for a model whose shapes are not known."""

from __future__ import annotations

import pytest

from ds_lint.facts import Sources
from ds_lint.facts.parameter_count import parameter_count, stand_in
from ds_lint.facts.readers import gather
from ds_lint.facts.shapes import count
from ds_lint.facts.unreadable import UnreadableFact


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7B", 7 * 10**9),
        ("70b", 70 * 10**9),
        ("1.3B", 1_300_000_000),
        ("350M", 350 * 10**6),
        ("6738415616", 6_738_415_616),
        ("1T", 10**12),
        (" 7 B ", 7 * 10**9),
    ],
)
def test_a_number_is_read(text, number):
    assert parameter_count(text) == number


@pytest.mark.parametrize("text", ["", "B", "7", "-7B", "7GB", "7B5", "0B", "1e9", "1000T"])
def test_what_is_not_a_number_of_parameters_is_named(text):
    with pytest.raises(UnreadableFact, match="not a valid number of parameters"):
        parameter_count(text)


@pytest.mark.parametrize("number", [10**6, 125 * 10**6, 350 * 10**6, 1_300_000_000, 7 * 10**9, 70 * 10**9, 10**12])
def test_the_stand_in_is_about_as_large(number):
    model = stand_in(number)
    assert model.is_stand_in
    assert model.parameter_count == number
    assert count(model.config) == pytest.approx(number, rel=0.01)


def test_the_stand_in_has_the_proportions_of_published_models():
    small, large = stand_in(8_030_261_248).config, stand_in(70_553_706_496).config
    assert (small["hidden_size"], small["num_hidden_layers"]) == (
        pytest.approx(4096, rel=0.15),
        pytest.approx(32, rel=0.2),
    )
    assert (large["hidden_size"], large["num_hidden_layers"]) == (
        pytest.approx(8192, rel=0.15),
        pytest.approx(80, rel=0.2),
    )


def test_the_number_counts_if_no_shapes_are_known(monkeypatch, tmp_path):
    facts = gather(Sources(parameters="7B"))
    assert facts.model.parameter_count == 7 * 10**9
    assert facts.origins["model"] == (
        "7,000,000,000 parameters, with the shapes of a dense decoder of about that size, by --parameters"
    )
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    facts = gather(Sources(parameters="7B", model="gpt2"))
    assert facts.model.parameter_count == 124_439_808
    (tmp_path / "config.json").write_text('{"model_type": "own"}')
    assert gather(Sources(parameters="7B", model=str(tmp_path))).model.is_stand_in


def test_sources_join_what_the_estimate_takes():
    joined = Sources(parameters="7B").over(Sources(lora="r=8", parameters="13B"))
    assert (joined.parameters, joined.lora) == ("7B", "r=8")
    assert joined.giver("lora") == "--lora"
    assert Sources(parameters="7B")

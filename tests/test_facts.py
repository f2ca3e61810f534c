"""What is known beside a config, and its source."""

from __future__ import annotations

import os

import pytest

from ds_lint.facts import Facts, Sources
from ds_lint.facts.readers import gather
from ds_lint.facts.unreadable import UnreadableFact

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def test_a_fact_says_what_it_is_and_its_source():
    facts = gather(Sources(world_size=8, nodes=2))
    assert (facts.world_size, facts.nodes, facts.ranks_per_node) == (8, 2, 4)
    assert facts.origins == {"world size": "8, by --world-size", "nodes": "2, by --nodes"}


def test_without_sources_nothing_is_known():
    assert not Sources()
    assert gather(Sources()).origins == {}


def test_the_command_line_comes_before_a_settings_file():
    sources = Sources(world_size=8).over(Sources(world_size=4, nodes=2, given_by="ds-lint.toml"))
    assert gather(sources).origins == {"world size": "8, by --world-size", "nodes": "2, by ds-lint.toml"}


def test_ranks_that_do_not_spread_evenly_have_no_number_by_node():
    assert Facts(world_size=7, nodes=2).ranks_per_node is None


def test_more_nodes_than_ranks_is_one_line():
    with pytest.raises(UnreadableFact, match="4 nodes and 2 ranks"):
        gather(Sources(world_size=2, nodes=4))


@pytest.mark.parametrize(
    ("model", "machine", "missing"),
    [
        (None, {"gpu": "T4"}, ["model"]),
        (None, {"host_memory": "64GB"}, ["model"]),
        ("config_alone", {"gpu": "T4"}, ["size of the model"]),
        ("config_alone", {}, []),
        ("bnb_llama", {"gpu": "T4"}, []),
        ("llama", {"gpu": "T4"}, []),
    ],
)
def test_a_machine_without_a_size_to_hold_against_it_is_told(tmp_path, model, machine, missing):
    """Quantised weights have no size that ds-lint would count, whatever lies beside the config."""
    folder = f"{MODELS}/{model}"
    if model == "config_alone":
        folder = str(tmp_path)
        (tmp_path / "config.json").write_text('{"model_type": "own", "hidden_size": 4096}', encoding="utf-8")
    facts = gather(Sources(world_size=1, model=folder if model else None, **machine))
    assert facts.missing("deepspeed") == missing

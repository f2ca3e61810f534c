"""``ds-lint memory --plot``: a drawing that is well-formed and says in words what it shows."""

from __future__ import annotations

import importlib.util
from xml.etree import ElementTree as ET

import pytest

from ds_lint.commands.parser import parse
from ds_lint.facts.tensors import Tensor
from ds_lint.memory.answer import Answer
from ds_lint.memory.capacity import Capacity
from ds_lint.memory.estimate import estimate
from ds_lint.memory.setup import Offload, TrainingSetup
from ds_lint.memory.sweep import sweep
from ds_lint.output import memory_plot

SVG = "{http://www.w3.org/2000/svg}"
SETUP = TrainingSetup(
    tuple(Tensor(f"layers.{layer}.weight", 2**24) for layer in range(64)),
    ranks=8, nodes=1, stage=2, architecture={}, optimizer_offload=Offload("cpu"),
)  # fmt: skip


@pytest.fixture
def answer():
    return Answer("a<b>&.json", None, "a model", "A100", estimate(SETUP), Capacity(2**30, 2**36))


def parsed(answer):
    return ET.fromstring(memory_plot.svg(answer))  # noqa: S314 - it is ours


def widths(root, kind):
    return [float(one.get("width")) for one in root.iter(f"{SVG}rect") if one.get("class") == kind and one[:]]


def test_the_drawing_is_well_formed_and_has_words(answer):
    root = parsed(answer)
    texts = [text for one in root.iter(f"{SVG}text") if (text := one.text)]
    assert (
        texts[0] == "Memory of a<b>&.json: ZeRO stage 2 with optimizer offload to CPU, bf16, optimizer adamw, 8 ranks"
    )
    assert {"per GPU", "per host", "parameters", "capacity 1.00 GiB", "capacity 64.0 GiB"} <= set(texts)
    assert root.get("role") == "img"
    description = root.find(f"{SVG}desc").text
    assert "this config, per GPU: " in description
    assert "parameters 2.00 GiB" in description
    assert "prefers-color-scheme:dark" in root.find(f"{SVG}style").text


def test_the_bars_are_in_proportion(answer):
    root = parsed(answer)
    (masters,), (states,) = widths(root, "master_weights"), widths(root, "optimizer_states")
    assert states == pytest.approx(2 * masters, abs=0.2)


def test_a_sweep_has_a_bar_for_every_row(answer):
    rows = tuple(sweep(SETUP))
    drawn = memory_plot.bars(answer._replace(rows=rows))
    assert sum(bar.place == "per GPU" for bar in drawn) == len(rows)
    assert next(bar.label for bar in drawn if "this config" in bar.label) == "stage 2, optimizer offload (this config)"
    for bar in drawn:
        assert sum(bar.kinds.values()) >= bar.whole.likely - 1  # not all is held at once
    parsed(answer._replace(rows=rows))


def test_what_does_not_fit_by_far_is_cut_off(answer):
    """What fits stays readable beside it."""
    small = answer._replace(capacity=Capacity(2**28, None))
    root = parsed(small)
    assert len([one for one in root.iter(f"{SVG}path") if one.get("class") == "cut"]) == 1
    ends = [float(one.get("x")) + float(one.get("width")) for one in root.iter(f"{SVG}rect") if one[:]]
    assert max(ends) <= memory_plot.WIDTH - memory_plot.RIGHT + 0.1


def test_a_page_has_the_figures_as_a_table(answer):
    page = memory_plot.page(answer)
    assert page.startswith("<!doctype html>")
    assert "a&lt;b&gt;&amp;.json" in page
    assert "<th scope='row'>this config</th><td>per GPU</td>" in page


def test_a_picture_without_matplotlib_is_refused(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert parse(["memory", "ds.json", "--plot", str(tmp_path / "a.png")]) == 2
    assert capsys.readouterr().err == (
        "ds-lint: --plot needs matplotlib for .png (pip install matplotlib); .svg and .html need nothing\n"
    )


def test_a_picture_is_a_png(answer, tmp_path):
    pytest.importorskip("matplotlib")
    memory_plot.write_png(answer, str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")

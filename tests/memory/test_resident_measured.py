"""What ``ds-lint memory`` says of host memory, against what the kernel counts for real ranks on a CPU.

``tools/resident`` measures it. On CPU ranks, what a GPU would hold lies in host memory, too, so the tensors of the GPU
are added. What the imports of a process take is measured apart, and not part of these figures.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.footprint import host, setup, shared_memory
from ds_lint.footprint.band import Band
from ds_lint.footprint.estimate import estimate
from ds_lint.knowledge import keys
from ds_lint.linter.choice import choose
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents

STORE = json.loads((Path(__file__).parents[2] / "tools/resident/measured.json").read_text(encoding="utf-8"))
RUNS = STORE["runs"]
LIBRARIES = STORE["measured"]["libraries"]
TARGET = choose("", {name: LIBRARIES[name] for name in ("deepspeed", "transformers", "accelerate")}).newest
GLOO = 3  # bytes of each parameter: copies of what Gloo sends between ranks, which NCCL does not make
HEAP = 0.08  # share of what is held: freed blocks that the C library keeps
BESIDE = 60e6  # bytes of each rank: activations of 16 tokens, threads, modules that training is the first to import
PHASES = {
    "loading": "initialization",
    "initialization": "initialization",
    "step": "step",
    "saving weights": "saving",
    "saving": "saving",
    "resuming": "saving",
    "step after resuming": "step",
}


def name_of(run):
    zero = run["config"]["zero_optimization"]
    offload = [f"{key.removeprefix('offload_')} on {zero[key]['device']}" for key in zero if key.startswith("offload_")]
    words = [run["name"], f"stage {zero['stage']}", f"{run['ranks']} ranks", *offload, run["files"], run.get("load")]
    return ", ".join(filter(None, words))


def estimated(run):
    """The estimate of a run, all ranks on one node; a GPU has room for what is flattened."""
    facts = Facts(world_size=run["ranks"], nodes=1)
    facts.model = Model("", {**run["model"], "dtype": (run["files"] or run["dtype"]).split()[-1]})
    facts.sequence_length = 16
    basis = Basis(keys.knowledge(TARGET), run["stack"], facts)
    config = configs.from_document(documents.from_bytes(json.dumps(run["config"]).encode(), "config.json"), basis)
    found = setup.of(config)
    assert found is not None
    return estimate(found._replace(uses_zero_init=run.get("zero_init", True)))


def expected(run):
    """The bytes of all ranks in each phase, without what their processes take beside."""
    found = estimated(run)
    beside = host.PROCESS.plus(shared_memory.of_rank(found.setup)).times(-run["ranks"])
    bands = {}
    for name, peak in found.peaks.items():
        on_host, on_gpus = peak.host.plus(beside), peak.tensors.times(run["ranks"])
        least = max(on_host.least, on_gpus.least) if name == "initialization" else on_host.least + on_gpus.least
        bands[name] = Band(least, on_host.likely + on_gpus.likely, on_host.most + on_gpus.most)
    return bands


@pytest.mark.parametrize("run", [pytest.param(run, id=name_of(run)) for run in RUNS])
def test_no_run_leaves_the_band(run):
    bands, start = expected(run), run["phases"]["start"]["node_anonymous"]
    beside = run["ranks"] * BESIDE
    if run["ranks"] > 1:
        beside += run["ranks"] * GLOO * estimated(run).setup.parameter_count
    for phase, counted in run["phases"].items():
        if phase in PHASES:
            taken, band = counted["node_anonymous"] - start, bands[PHASES[phase]]
            least = band.least if phase != "loading" else 0
            print(f"{phase}: {taken / 1e6:.0f} of {least / 1e6:.0f} {band.likely / 1e6:.0f} {band.most / 1e6:.0f}")
            assert least <= taken * (1 + HEAP), phase
            assert taken <= band.most * (1 + HEAP) + beside, phase


@pytest.mark.parametrize("run", [pytest.param(run, id=name_of(run)) for run in RUNS])
def test_no_process_takes_less_than_the_least(run):
    ranks = run["phases"]["imports"]["ranks"]
    assert all(host.PROCESS.least <= rank["anonymous"] <= host.PROCESS.likely for rank in ranks)

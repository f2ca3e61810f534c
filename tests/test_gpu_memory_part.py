"""Part ``memory`` of what a GPU shows, and the allowances that follow from its results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.gpu import allowances, memory_setups
from tools.gpu.parts import memory
from tools.gpu.setting import Setting, Unanswered

MIB = 2**20
H100 = {
    "gpu": "NVIDIA H100 80GB HBM3", "driver": "580.1", "date": "2026-11-27", "rehearsal": False,
    "versions": {"torch": "2.11.0"},
}  # fmt: skip
H200 = {**H100, "gpu": "NVIDIA H200", "date": "2026-11-28"}


def reading(beside: float, *, allocated: float = 1000, reserved: float = 1100, process: bool = True):
    """Figures in MiB: what the driver says of the process, or of the card alone."""
    told = round((reserved + beside) * MIB)
    figures = {
        "peak_allocated": allocated, "allocated": allocated, "peak_reserved": reserved, "reserved": reserved,
    }  # fmt: skip
    return {**{k: round(v * MIB) for k, v in figures.items()}, "process": told if process else None, "device": told}


def run(beside: float, **figures):
    observed = {"initialization": reading(beside), "second step": reading(beside, **figures)}
    return {"name": "run", "status": "measured", "setup": {}, "observed": observed, "workspaces": 64 * MIB}


def results(machine, *items):
    context = {"name": "context", "status": "measured", "context": reading(400)}
    return {"version": 1, "part": "memory", "machine": machine, "items": [context, *items]}


def written(tmp_path: Path, **files):
    """What the tool makes of these results files, and of the store as it is."""
    for name, content in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    store = tmp_path / "store.json"
    store.write_text(allowances.STORE.read_text(encoding="utf-8"))
    status = allowances.main([str(tmp_path)], store)
    return status, json.loads(store.read_text(encoding="utf-8"))


def test_what_was_measured_replaces_what_was_documented(tmp_path):
    lone = {"name": "communication", "status": "measured", "ranks": 1, "context": reading(400), "after": reading(500)}
    before = json.loads(allowances.STORE.read_text(encoding="utf-8"))
    failed = {"name": "broken", "status": "error", "error": "..."}
    status, known = written(tmp_path, memory=results(H100, run(500), run(600, process=False), lone, failed))
    assert status == 0
    context = known["context"]
    # Of the context alone, of that beside NCCL, and of two runs.
    assert [context[name] / MIB for name in ("likely", "most")] == [450, 900]
    assert context["least"] <= 400 / 1.5 * MIB  # other cards may take less
    source = {name: context["source"][name] for name in ("kind", "gpu", "driver", "torch", "date", "setups")}
    assert source == {
        "kind": "measured", "gpu": H100["gpu"], "driver": "580.1", "torch": "2.11.0", "date": "2026-11-27", "setups": 4,
    }  # fmt: skip
    assert known["fragmentation"] == before["fragmentation"]  # of a small run, segments are not full
    assert known["matrix_workspaces"]["likely"] == 64 * MIB
    assert known["communication"] == before["communication"]  # a group of one rank has no buffers for peers


def test_a_second_card_widens_what_was_measured(tmp_path):
    small, large = {"needed_beyond_tensors": 0.02}, {"needed_beyond_tensors": 0.3}
    one, other = (
        results(card, run(beside, allocated=10_000, reserved=11_000) | needed)
        for card, beside, needed in ((H100, 500, small), (H200, 700, large))
    )
    (tmp_path / "one").mkdir()
    (tmp_path / "both").mkdir()
    _, of_one = written(tmp_path / "one", memory=one)
    _, of_both = written(tmp_path / "both", memory=one, memory_2=other)
    assert of_both["context"]["most"] > of_one["context"]["most"]
    assert of_both["fragmentation"]["most"] > of_one["fragmentation"]["most"]
    assert of_both["context"]["source"]["gpu"] == "NVIDIA H100 80GB HBM3, NVIDIA H200"


def test_a_rehearsal_is_refused(tmp_path, capsys):
    rehearsed = results({**H100, "gpu": None, "rehearsal": True}, run(500))
    status, known = written(tmp_path, memory=rehearsed)
    assert status == 1
    assert "rehearsal" in capsys.readouterr().err
    assert known == json.loads(allowances.STORE.read_text(encoding="utf-8"))


def test_there_are_many_runs_of_every_kind(tmp_path):
    items = memory.items(Setting(str(tmp_path), rehearses=True))
    assert len(items) - 3 >= 40
    assert len({item.name for item in items}) == len(items)
    first = memory_setups.SETUPS[:10]
    assert {one.stage for one in first} == {0, 1, 2, 3}
    assert any(one.offload for one in first)
    assert any(one.is_checkpointed for one in first)


def test_a_run_that_does_not_fit_is_not_begun(tmp_path):
    largest = next(one for one in memory_setups.SETUPS if one.model == "llama 7B" and not one.is_adapted)
    items = {item.name: item for item in memory.items(Setting(str(tmp_path), rehearses=True))}
    found = items[largest.name].measure(None)
    assert found["status"] == "does not fit"
    assert found["lacking"]["gpu"]["likely"] > found["lacking"]["gpu"]["free"]


def test_what_the_driver_does_not_tell_is_neither_within_nor_outside():
    said = {"gpu": {"least": 0, "most": 1400 * MIB}, "tensors": {"least": 1000 * MIB, "most": 1000 * MIB}}
    unknown = {**reading(400), "process": None, "device": None}
    observed = {"initialization": reading(200), "first step": reading(400), "second step": unknown}
    found = memory._compared({"initialization": said, "step": said}, {"observed": observed})
    assert found["within"] == {"initialization": True, "step": False}
    assert found["tensors_within"] == {"initialization": True, "step": True}


@pytest.mark.fidelity
@pytest.mark.long
def test_a_rehearsal_measures(tmp_path):
    pytest.importorskip("deepspeed")
    setting = Setting(str(tmp_path), rehearses=True)
    items = {item.name: item for item in memory.items(setting)}
    with memory.lane(setting) as shared:
        found = items[memory_setups.SETUPS[0].name].measure(shared)
        with pytest.raises(Unanswered):
            items[memory.WORKSPACES].measure(shared)
    assert found["status"] == "measured", found
    assert set(found["observed"]) == set(memory_setups.PHASES)
    assert set(found["within"]) == set(memory_setups.PHASES.values())
    assert found["skipped_steps"] == 0

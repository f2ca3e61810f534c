"""However the ranks of a user's script end, ds-lint says in which phase, and nothing is left."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.processes.leftovers import processes_of
from ds_lint.smoke.script import command_start, ending

SCRIPT = Path(__file__).parent / "programs" / "ending_script.py"
PHASES = {  # phases and ends of both ranks, and how the message begins
    "initialize": (["initialize"] * 2, "the script raises in deepspeed.initialize: TypeError"),
    "data": (["after initialize"] * 2, "the script raises between deepspeed.initialize and its first step: KeyError"),
    "step": (["step"] * 2, "the script raises in a training step: ValueError: of the script"),
    "one rank": (["step"] * 2, "the script raises in a training step: ValueError: of the script"),
    "killed": (["step"] * 2, "the command ends with status 1 in a training step, because "),
    "exit": (["step"] * 2, "the command ends with status 1 in a training step: the script exits by itself"),
    "os._exit": (["step"] * 2, "the command ends with status 1 in a training step: the script calls os._exit(4)"),
    "few": (["step"] * 2, None),
    "few after the checkpoint": (["step"] * 2, None),
    "save": (["save"] * 2, "the script raises while it saves: "),
    "full disk": (["step"] * 2, "the disk is full: the script raises in a training step: RuntimeError"),
    "hang": (["step"] * 2, "the command did not finish within 60 s (--timeout): rank 0 in a training step, rank 1"),
    "catches everything": (["done"] * 2, None),
}


@pytest.mark.fidelity
@pytest.mark.long
@pytest.mark.parametrize("how", PHASES)
def test_how_ranks_end(how, tmp_path, monkeypatch):
    if how == "full disk" and not os.path.exists("/dev/full"):
        pytest.skip("no device without space")
    monkeypatch.chdir(tmp_path)
    shutil.copy(SCRIPT, tmp_path)
    plan = plans.Plan(str(tmp_path / "run"), steps_after=0 if how == "few" else 2, resumes=False, uses_cpu=True)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", SCRIPT.name]
    seconds = 60.0 if how == "hang" else 240.0
    end = command_start.run([*launcher, how], plan, seconds)
    phases, message = PHASES[how]
    assert [one.phase for one in end.ranks] == phases
    failed = ending.failure(end, plan, seconds)
    if message is None:
        assert failed is None
    else:
        assert failed.message.startswith(message)
    if how.startswith("few") or how in ("step", "exit", "os._exit", "catches everything"):
        assert [len(ranks) for ranks in end.engines.values()] == [2]
    assert processes_of(plan.folder) == []
    ports = {one.port for one in end.ranks}
    for name in os.listdir("/dev/shm") if os.path.isdir("/dev/shm") else ():  # macOS has none
        assert not any(f"_{port}" in name for port in ports)
    assert sorted(os.listdir(tmp_path)) == [SCRIPT.name, "run"]

"""``ds-lint smoke`` with small made-up commands, which leave what the ranks of a script would leave."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from shown_engines import CONFIG, shown

from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.probe import presence
from ds_lint.smoke.probe import shown as records
from ds_lint.smoke.probe.plan import TRAIN, Plan

# Copies the records of each start into the folder of the run, and ends as it is told.
RANKS = """
import json, os, shutil, sys
with open(os.environ["DS_LINT_PROBE"]) as file:
    plan = json.load(file)
left = os.path.join(sys.argv[1], plan["part"])
if os.path.isdir(left):
    shutil.copytree(left, os.path.join(plan["folder"], plan["part"]), dirs_exist_ok=True)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture
def leave(tmp_path, monkeypatch):
    """Leaves the engines and the processes of two ranks in a start."""

    def leave(part, *ranks, phase="done", raised=None):
        plan = Plan(str(tmp_path / "left"), part)
        plans.write(plan)
        monkeypatch.setenv("DS_LINT_PROCESS_OF_RANK", str(os.getpid()))  # this process is all ranks
        for rank in (0, 1):
            monkeypatch.setenv("RANK", str(rank))
            process = presence.Presence(plan)
            process.enter(phase)
            if raised is not None:
                process.raised(raised)
            (path,) = Path(plan.own_folder).glob("process-[0-9]*.json")
            path.rename(path.with_name(f"process-of-rank-{rank}.json"))
        for one in ranks:
            records.write(one, plan.own_folder)
        monkeypatch.delenv("RANK")
        monkeypatch.delenv("DS_LINT_PROCESS_OF_RANK")

    return leave


@pytest.fixture
def smoke(report):
    """Runs ds-lint with the made-up command; its status, the checks by their ids, and what it complains of."""
    return lambda *options, **more: _told(report(*options, **more))


def _told(done):
    found = json.loads(done.stdout)["smoke"] if done.stdout else []
    checks = {check["id"]: check for one in found for check in one["checks"]}
    return done.returncode, checks, done.stderr.strip().split("\n")[-1]


@pytest.fixture
def report(run, tmp_path):
    """Runs ds-lint with the made-up command."""

    def report(*options, status=0, config=CONFIG):
        (tmp_path / "ranks.py").write_text(RANKS)
        if config is not None:
            (tmp_path / "ds.json").write_text(json.dumps(config))
            options = (*options, "--config", "ds.json")
        command = [sys.executable, "ranks.py", "left", str(status)]
        return run("smoke", "--isolated", "--cpu", "--output-format", "json", *options, "--", *command)

    return report


def untrained(rank=0, **changes):
    """An engine that was not observed to its checkpoint."""
    one = shown(rank, has_checkpoint=False, **changes)
    one.evidence.engine = None
    return one


def test_a_script_that_ends_before_the_steps_is_told_the_steps_that_it_makes(leave, smoke):
    leave(TRAIN, untrained(), untrained(1), phase="step")
    status, checks, _ = smoke("--steps", "5")
    assert (status, checks["start"]["status"]) == (2, "error")
    assert checks["start"]["message"] == "the script ends after 3 of 5 steps: pass --steps 3"


def test_a_script_that_trains_nothing_does_not_pass(leave, smoke):
    leave(TRAIN, untrained(is_trained=False), untrained(1, is_trained=False))
    status, checks, _ = smoke()
    assert (status, checks["start"]["status"]) == (2, "error")
    assert checks["start"]["message"] == "the script makes no optimizer step with this engine"


def test_an_exception_in_a_step_is_a_failure_of_the_script(leave, smoke):
    leave(TRAIN, untrained(), untrained(1), phase="step", raised=KeyError("labels"))
    status, checks, _ = smoke(status=1)
    assert status == 1
    assert checks["start"]["status"] == "fail"
    assert checks["start"]["message"] == "the script raises in a training step: KeyError: 'labels'"


def test_a_run_that_saves_nothing_is_checked_and_incomplete(leave, smoke):
    leave(TRAIN, shown(has_checkpoint=False), shown(1, has_checkpoint=False))
    status, checks, complaint = smoke("--no-resume")
    assert checks["stage"]["status"] == checks["batch"]["status"] == checks["samples"]["status"] == "pass"
    assert "resume" not in checks
    assert (status, checks["export"]["status"]) == (2, "error")
    assert complaint.endswith("the run of the script is incomplete: the saved model was not checked: nothing was saved")


def test_ranks_with_the_same_data_are_found(leave, smoke):
    first = shown(has_checkpoint=False)
    leave(TRAIN, first, shown(1, has_checkpoint=False, batches=first.batches))
    _, checks, _ = smoke("--no-resume")
    assert checks["samples"]["status"] == "warn"


@pytest.mark.parametrize(
    ("stack", "optimizer", "is_told"),
    [("deepspeed", "", True), ("deepspeed", "torch.optim.adamw.AdamW", False), ("accelerate", "", False)],
)
def test_the_config_is_linted_for_what_the_run_shows(leave, report, stack, optimizer, is_told):
    config = {name: CONFIG[name] for name in ("train_micro_batch_size_per_gpu", "zero_optimization")}
    known = {"has_checkpoint": False, "config": config, "stack": stack, "optimizer": optimizer}
    leave(TRAIN, shown(**known), shown(1, **known))
    told = json.loads(report("--no-resume", config=config).stdout)
    assert ("DS302" in {one["code"] for one in told["findings"]}) is is_told  # ZeRO without an optimizer


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([], "smoke needs the command to run, behind --"),
        (["no-such-launcher", "train.py"], "'no-such-launcher' cannot be started: No such file or directory"),
        ([sys.executable, "no_such_script.py"], "the command ends with status 2 before it imports"),
        ([sys.executable, "broken.py"], "the command ends with status 1 before it imports"),
    ],
)
def test_a_command_that_cannot_train_is_one_sentence_and_status_2(run, tmp_path, command, words):
    (tmp_path / "broken.py").write_text("import deepspeed\ndef main(:\n")
    done = run("smoke", "--isolated", "--cpu", "--", *command)
    assert done.returncode == 2
    assert words in done.stderr.strip().split("\n")[-1]
    assert "Traceback (most recent call last)" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("text", [None, "[1, 2]", "words: of a text"], ids=["no file", "no section", "no DeepSpeed"])
def test_a_file_without_a_config_is_told_before_anything_starts(run, tmp_path, text):
    if text is not None:
        (tmp_path / "other.yaml").write_text(text)
    done = run("smoke", "--isolated", "--cpu", "--config", "other.yaml", "--", "touch", "started")
    assert done.returncode == 2
    assert done.stderr == "ds-lint: other.yaml holds no DeepSpeed config\n"
    assert not (tmp_path / "started").exists()


def test_a_config_that_no_library_reads_is_told_before_anything_starts(run, tmp_path):
    (tmp_path / "ds.json").write_text('{"zero_optimization": {')
    done = run("smoke", "--isolated", "--cpu", "--config", "ds.json", "--", "touch", "started")
    assert (done.returncode, done.stderr.split(":")[1]) == (
        2,
        " ds.json cannot be read by any library; run ds-lint check to see why\n",
    )
    assert not (tmp_path / "started").exists()


def test_a_command_that_takes_too_long_is_ended(run):
    sleep = [sys.executable, "-c", "import time; time.sleep(40)"]
    done = run("smoke", "--isolated", "--cpu", "--timeout", "1", "--", *sleep)
    assert done.returncode == 2
    assert "1 s" in done.stderr.strip().split("\n")[-1]
    assert "--timeout" in done.stderr.strip().split("\n")[-1]

"""``ds-lint smoke`` with small made-up commands, which leave what the ranks of a script would leave."""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from pathlib import Path

import pytest
from shown_engines import CONFIG, shown

from ds_lint.commands.smoke import _demand_places
from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.probe import presence
from ds_lint.smoke.probe.plan import TRAIN, Plan
from ds_lint.smoke.processes.client import CouldNotRun
from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.records.engine_trace import Evaluated

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
        monkeypatch.setenv("DS_LINT_SEEMING_RANK", str(os.getpid()))  # this process is all ranks
        for rank in (0, 1):
            monkeypatch.setenv("RANK", str(rank))
            process = presence.Presence(plan)
            process.enter(phase)
            if raised is not None:
                process.raised(raised)
            (path,) = Path(plan.own_folder).glob("process-[0-9]*.json")
            path.rename(path.with_name(f"process-of-rank-{rank}.json"))
        for one in ranks:
            engine_trace.write(one, plan.own_folder)
        monkeypatch.delenv("RANK")
        monkeypatch.delenv("DS_LINT_SEEMING_RANK")

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


def evaluated(rank):
    """An engine without an optimizer, at stage 3."""
    one = untrained(rank, is_trained=False, evaluated=Evaluated())
    one.config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}
    return one


def passes(folder, *of_ranks):
    """The files in which ranks count their forward passes."""
    for rank, counted in enumerate(of_ranks):
        path = engine_trace.path_of_passes(str(folder / "left" / TRAIN), rank, 1)
        Path(path).write_bytes(struct.pack(engine_trace.PASSES, *counted))


def test_a_script_that_evaluates_passes(leave, smoke, tmp_path):
    ranks = [evaluated(rank) for rank in (0, 1)]
    for one in ranks:
        one.evidence.engine = shown().evidence.engine
        one.evidence.engine.stage, one.evidence.held = 3, {"parameters": Held(10, 40)}
    leave(TRAIN, *ranks, phase="evaluate")
    passes(tmp_path, (4, 4), (4, 4))
    status, checks, _ = smoke(config=ranks[0].config)
    assert status == 0
    assert checks["start"]["message"] == "each rank makes 4 forward passes, and none of them trains"


def test_ranks_that_wait_for_each_other_are_a_failure_of_the_script(leave, smoke, tmp_path):
    leave(TRAIN, evaluated(0), evaluated(1), phase="evaluate")
    passes(tmp_path, (5, 4), (4, 4))
    status, checks, _ = smoke(status=1, config=evaluated(0).config)
    assert (status, checks["start"]["status"]) == (1, "fail")
    assert "rank 0 waits in its 5th, and rank 1 makes 4" in checks["start"]["message"]


def test_an_exception_in_a_step_is_a_failure_of_the_script(leave, smoke):
    leave(TRAIN, untrained(), untrained(1), phase="step", raised=KeyError("labels"))
    status, checks, _ = smoke(status=1)
    assert status == 1
    assert checks["start"]["status"] == "fail"
    assert checks["start"]["message"] == "the script raises in a training step: KeyError: 'labels'"


def test_an_exception_before_the_first_step_is_the_whole_failure(leave, smoke):
    raised = KeyError("text")
    leave(TRAIN, untrained(is_trained=False), untrained(1, is_trained=False), phase="after initialize", raised=raised)
    status, checks, _ = smoke(status=1)
    assert (status, checks["start"]["status"]) == (1, "fail")
    assert checks["start"]["message"] == (
        "the script raises between deepspeed.initialize and its first step: KeyError: 'text'"
    )


def test_a_run_that_saves_nothing_is_checked_and_incomplete(leave, smoke):
    ranks = [shown(rank, has_checkpoint=False) for rank in (0, 1)]
    for one in ranks:
        share = Held(6, 24)
        one.evidence.held = {"parameters": Held(10, 40), "gradients": share, "master weights": share}
        one.evidence.held |= {"exp_avg": share, "exp_avg_sq": share}
    leave(TRAIN, *ranks)
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
    ("stack", "optimizer", "is_trained", "is_told"),
    [
        ("deepspeed", "", True, True),
        ("deepspeed", "torch.optim.adamw.AdamW", True, False),
        ("deepspeed", "", False, False),  # a reference model
        ("accelerate", "", True, False),
    ],
)
def test_the_config_is_linted_for_what_the_run_shows(leave, report, stack, optimizer, is_trained, is_told):
    config = {name: CONFIG[name] for name in ("train_micro_batch_size_per_gpu", "zero_optimization")}
    known = {
        "has_checkpoint": False,
        "config": config,
        "stack": stack,
        "optimizer": optimizer,
        "is_trained": is_trained,
    }
    leave(TRAIN, shown(**known), shown(1, **known))
    told = json.loads(report("--no-resume", config=config).stdout)
    assert ("DS302" in {one["code"] for one in told["findings"]}) is is_told  # ZeRO without an optimizer


@pytest.mark.parametrize(
    ("given", "place"),
    [({"steps_per_print": math.inf}, "ds.json"), ({"gradient_clipping": 1.0}, "<config of the script>")],
)
def test_a_config_in_which_a_stack_overwrites_a_value_is_still_that_of_the_file(leave, report, given, place):
    written = CONFIG | {"steps_per_print": 5, "gradient_clipping": 0.5}
    known = {"has_checkpoint": False, "config": written | given, "stack": "accelerate"}
    leave(TRAIN, shown(**known), shown(1, **known))
    (run,) = json.loads(report("--no-resume", config=written).stdout)["smoke"]
    assert run["path"] == place


@pytest.mark.parametrize(
    ("changes", "ranks"),
    [
        ({}, 4),
        ({"multiplied_by": 2}, 2),
        ({"multiplied_by": 2, "config": {"sequence_parallel_size": 2}}, 4),
    ],
)
def test_the_ranks_count_of_which_deepspeed_makes_the_batch_sizes(changes, ranks):
    assert shown(**{"world_size": 4, "multiplied_by": 4, **changes}).counted_ranks == ranks


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


def test_a_command_without_an_engine_is_told_with_the_stack_of_its_script(run, tmp_path):
    (tmp_path / "train.py").write_text(
        "raise SystemExit(1)\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        "Trainer(args=HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]).train()\n"
    )
    (tmp_path / "ds.json").write_text(json.dumps(CONFIG))
    command = ["python", "train.py", "--output_dir", "out", "--deepspeed", "ds.json"]
    (report,) = json.loads(run("smoke", "--isolated", "--cpu", "--output-format", "json", "--", *command).stdout)[
        "smoke"
    ]
    assert (report["path"], report["stack"]) == ("ds.json", "trainer")


@pytest.mark.parametrize("text", ["[1, 2]", "words: of a text"], ids=["no section", "no DeepSpeed"])
def test_a_file_without_a_config_is_told_before_anything_starts(run, tmp_path, text):
    (tmp_path / "other.yaml").write_text(text)
    done = run("smoke", "--isolated", "--cpu", "--config", "other.yaml", "--", "touch", "started")
    assert done.returncode == 2
    assert done.stderr == "ds-lint: other.yaml holds no DeepSpeed config\n"
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--config", "ds.json"], "ds.json (--config) does not exist"),
        (["--report", "html=no/page.html"], "no/page.html cannot be written: there is no folder no"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_before_anything_starts(run, tmp_path, options, message):
    done = run("smoke", "--isolated", "--cpu", *options, "--", "touch", "started")
    assert (done.returncode, done.stderr) == (2, f"ds-lint: {message}\n")
    assert not (tmp_path / "started").exists()


def test_what_cannot_be_kept_is_told_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").touch()
    _demand_places("page.html", None, keep="new/kept")
    with pytest.raises(CouldNotRun, match="there is no folder no"):
        _demand_places(None, "no/report.json", keep=None)
    with pytest.raises(CouldNotRun, match="taken is not a writable folder"):
        _demand_places(None, None, keep="taken/kept")


def test_a_command_that_is_not_behind_dashes_is_told_so(run):
    done = run("smoke", "deepspeed", "train.py", "--deepspeed", "--steps", "x")
    assert done.returncode == 2
    assert done.stderr == "ds-lint: smoke needs the command to run, behind --: ds-lint smoke -- torchrun train.py\n"


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


def test_data_that_the_command_names_is_not_its_config_and_the_run_shows_its_ranks(leave, run, tmp_path, monkeypatch):
    (tmp_path / "train.json").write_text('{"sentence": "a", "label": 1}\n{"sentence": "b", "label": 0}\n')
    (tmp_path / "ranks.py").write_text(RANKS)
    launcher = tmp_path / "swift"
    launcher.write_text(f"#!/bin/sh\nexec {sys.executable} ranks.py left 0\n")
    launcher.chmod(0o755)
    monkeypatch.setenv("NPROC_PER_NODE", "2")  # without it, swift starts one process
    config = {**CONFIG, "train_batch_size": 8}
    leave(TRAIN, shown(config=config), shown(1, config=config))
    command = ["./swift", "sft", "--model", "m", "--dataset", "train.json"]
    told = json.loads(
        run("smoke", "--isolated", "--cpu", "--no-resume", "--output-format", "json", "--", *command).stdout
    )
    assert [one["path"] for one in told["smoke"]] == ["<config of the script>"]
    assert not [one for one in told["findings"] if one["path"] == "train.json" or one["code"] == "DS512"]


ACCELERATE = """distributed_type: DEEPSPEED
num_processes: 2
deepspeed_config:
  gradient_accumulation_steps: 2
  zero_stage: 2
"""


def of_stage_0(rank, **changes):
    """An engine that runs stage 0."""
    one = shown(rank, stack="accelerate", has_checkpoint=False, **changes)
    one.evidence.engine.stage = 0
    return one


def test_a_broken_promise_of_a_yaml_is_a_finding_and_a_reference_model_has_a_config_of_its_own(leave, report, tmp_path):
    """TRL sets the stage of a model that is not trained to 0."""
    (tmp_path / "launch.yaml").write_text(ACCELERATE)
    of_reference = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 0}}
    reference = {"number": 2, "is_trained": False, "config": of_reference}
    leave(TRAIN, *(of_stage_0(rank, **changes) for rank in (0, 1) for changes in ({}, reference)))
    told = json.loads(report("--no-resume", "--config", "launch.yaml", config=None).stdout)
    findings = {one["code"]: (one["path"], one["key"]) for one in told["findings"]}
    assert findings["DS902"] == ("launch.yaml", "deepspeed_config.zero_stage")
    trained, reference = sorted(told["smoke"], key=lambda one: one["engine"]["number"])
    assert (trained["path"], reference["path"]) == ("launch.yaml", "<config of the script> 2")
    assert [one["id"] for one in reference["checks"] if one["status"] == "fail"] == []

"""``ds-lint check --smoke-launches`` runs every launch of a project, and reports what each shows."""

from __future__ import annotations

import json
import os

import pytest
from command_line import write_into
from smoke_runs import check, verdict

from ds_lint import cli
from ds_lint.commands import smoke_launches
from ds_lint.diagnostics.verdict import SCRIPT, ScriptEngine
from ds_lint.launches.scripts import launches_in
from ds_lint.session.launch_runs import LaunchOutcome, RunnableLaunch, runnable

ENGINE = ScriptEngine(1, "cpu-gloo", "Llama", "AdamW", is_trained=True)
CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
STAGE = check("stage", "fail", key="zero_optimization.stage", message="the engine runs ZeRO stage 0")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    write_into(tmp_path)({"ds.json": CONFIG, "train.py": "import deepspeed\n"})
    return write_into(tmp_path)


@pytest.fixture
def ran(monkeypatch):
    """The launches that were run; ``ran.outcomes`` has what comes of them, one after the other."""

    class Ran(list):
        def __init__(self):
            super().__init__()
            self.outcomes = []

    runs = Ran()

    class Process:
        def __init__(self, wanted):
            runs.append(wanted)

        def outcome(self, _on_line):
            return runs.outcomes.pop(0)

    monkeypatch.setattr(smoke_launches, "LaunchProcess", Process)
    monkeypatch.setattr(smoke_launches.devices, "visible", lambda: 0)
    return runs


def of_script(**changes):
    return verdict(**{"mode": SCRIPT, "path": os.path.abspath("ds.json"), "engine": ENGINE} | changes)


def report(capsys, *arguments):
    status = cli.run(["check", ".", "--smoke-launches", "--output-format", "json", *arguments])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


def test_the_runs_of_all_launches_join_the_report(project, ran, capsys):
    project({"run.sh": "torchrun --nproc-per-node 2 train.py --deepspeed ds.json\npython train.py\n"})
    ran.outcomes = [
        LaunchOutcome([of_script(status="fail", checks=[STAGE])], []),
        LaunchOutcome([of_script(path="<config of the script>")], []),
    ]
    status, found, _ = report(capsys)
    assert status == 1
    assert [one.words[0] for one in ran] == ["torchrun", "python"]
    assert [(one["launch"], os.path.basename(one["path"])) for one in found["smoke"]] == [
        ("run.sh:1", "ds.json"),
        ("run.sh:2", "run.sh"),  # the config is in no file
    ]
    (failed,) = (one for one in found["findings"] if one["code"] == "DS902")
    assert os.path.basename(failed["path"]) == "ds.json"
    assert failed["key"] == "zero_optimization.stage"


def test_the_exit_status_follows_the_usual_rules(project, ran, capsys):
    project({"run.sh": "python train.py --deepspeed ds.json\n"})
    ran.outcomes = [LaunchOutcome([of_script()], [])]
    assert report(capsys)[0] == 0
    ran.outcomes = [LaunchOutcome([of_script(status="fail", checks=[STAGE])], [])]
    assert report(capsys, "--exit-zero")[0] == 0
    ran.outcomes = [LaunchOutcome([], [], "no such file")]
    status, found, said = report(capsys)
    assert status == 2
    assert "run.sh:1: the launch could not be run: no such file" in said
    assert found["smoke"] == []
    ran.outcomes = [LaunchOutcome([of_script(status="error", error="the disk is full")], [])]
    status, _, said = report(capsys)
    assert status == 2
    assert "run.sh:1: the run of the launch is incomplete: the disk is full" in said


def test_launches_that_cannot_be_run_are_named_with_the_reason(project, ran, capsys):
    project({"run.sh": "python train.py --lr $LR\nsrun torchrun --nnodes 2 --nproc_per_node 8 train.py\n"})
    status, _, said = report(capsys)
    assert (status, ran) == (2, [])
    assert "run.sh:1: the launch is not run: its words depend on LR\n" in said
    assert "run.sh:2: the launch is not run: it runs on 2 nodes, and ds-lint smoke runs on this machine only\n" in said


def test_a_command_that_is_there_twice_runs_once(project, ran, capsys):
    project({"run.sh": "python train.py\n", "again.sh": "python train.py\n"})
    ran.outcomes = [LaunchOutcome([of_script()], [])]
    assert report(capsys)[0] == 0
    assert len(ran) == 1


def test_the_options_are_those_of_smoke(project, ran, capsys):
    project({"run.sh": "python train.py\n"})
    ran.outcomes = [LaunchOutcome([of_script()], [])]
    report(capsys, "--smoke-timeout", "60", "--smoke-device", "cpu", "--report", "html=page.html")
    assert ran[0].arguments == ["smoke", "--cpu", "--timeout=60", "--", "python", "train.py"]
    with open("page.html", encoding="utf-8") as page:
        assert "run.sh:1" in page.read()


def launch_of(text):
    (launch,) = launches_in(text, "scripts/run.sh", lambda _: None).launches
    return launch


def test_a_launch_for_more_gpus_than_there_are_runs_on_cpus(tmp_path):
    launch = launch_of("deepspeed --num_gpus 8 train.py\n")
    found = runnable(launch, str(tmp_path), 2)
    assert isinstance(found, RunnableLaunch)
    assert found.options == ("--cpu",)
    assert found.note == "it starts 8 ranks, and this machine has 2 GPUs, so the run uses CPU ranks"
    assert runnable(launch, str(tmp_path), 8).options == ()
    assert runnable(launch_of("deepspeed --num_gpus 64 train.py\n"), str(tmp_path), 0) == (
        "it starts 64 ranks, and this machine has no GPU; a run on CPUs has at most 16"
    )


def test_a_launch_has_its_folder_and_the_variables_that_its_script_exports(tmp_path):
    write_into(tmp_path)({"scripts/train.py": ""})
    text = "#SBATCH --nodes=1\nexport SEED=1 HOST=$(hostname)\npython train.py --deepspeed ds.json\n"
    found = runnable(launch_of(text), str(tmp_path), 0)
    assert found.folder == str(tmp_path / "scripts")
    assert found.environment == {"SEED": "1"}
    write_into(tmp_path)({"train.py": ""})
    assert runnable(launch_of(text), str(tmp_path), 0).folder == str(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--smoke-launches", "--smoke-ranks", "4"], "--smoke-ranks needs --smoke"),
        (["--smoke-launches", "--diff"], "--diff prints no report and cannot be combined with --smoke-launches"),
        (["--smoke-launches", "--watch"], "--watch only checks; run --smoke-launches without it"),
        (
            ["--smoke-launches", "--show-files"],
            "--show-files checks nothing and cannot be combined with --smoke-launches",
        ),
        (
            ["--smoke-launches", "--fix-only"],
            "--fix-only prints no report and cannot be combined with --smoke-launches",
        ),
        (["--smoke-launches", "--smoke-device", "cuda"], "only --smoke-device cpu changes them"),
        (["--smoke-launches", "--smoke-sbatch", "job.sh"], "and cannot be combined with --smoke-launches"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, arguments, said):
    assert cli.run(["check", ".", *arguments]) == 2
    assert said in capsys.readouterr().err

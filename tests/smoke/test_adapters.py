"""``--smoke-lora`` before a run begins, and the check of frozen weights."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

import pytest
from command_line import clean_environment
from shown_engines import observed, runs, shown

from ds_lint.cli import run
from ds_lint.commands import training_runs
from ds_lint.diagnostics.report import FileReport
from ds_lint.smoke.records.job import Evidence, TrainedParameter
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.smoke.verify.frozen import frozen
from ds_lint.source import documents


def check(folder, *options):
    (folder / "c.json").write_text('{"train_batch_size": 2}')
    command = [sys.executable, "-m", "ds_lint", "check", "c.json", *options]
    return subprocess.run(
        command, cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False
    )


def test_a_missing_peft_is_told_before_anything_is_imported(monkeypatch):
    def start(_folder):
        raise AssertionError("the process is started that imports the libraries")

    monkeypatch.setattr(training_runs, "Pool", start)
    monkeypatch.setattr(training_runs, "find_spec", lambda _name: None)
    monkeypatch.setattr(training_runs.progress, "shown", lambda _number, **_options: contextlib.nullcontext())
    linted = [(FileReport("c.json", documents.from_dict({}), stack=None, target={}, missing=[], findings=[]), None)]
    said = training_runs.prove_all(linted, training_runs.Smoke(RunOptions(has_adapters=True)))
    assert [str(one) for one in said] == ["the smoke run could not be made: --smoke-lora needs peft: pip install peft"]


def test_adapters_need_a_run(tmp_path):
    said = check(tmp_path, "--smoke-lora")
    assert said.returncode == 2
    assert "--smoke-lora needs --smoke" in said.stderr


def test_a_job_trains_adapters_too(tmp_path):
    job = check(tmp_path, "--smoke-sbatch", "-", "--nodes", "1", "--world-size", "2", "--smoke-lora")
    assert "ds_lint.smoke.worker c.json --world-size=2 --nodes=1 --smoke-lora" in job.stdout


@pytest.mark.parametrize(
    ("options", "codes"),
    [
        ([], ["DS703"]),
        (["--smoke-lora"], []),
        (["--smoke-lora", "--transformers-version", "4.57.6"], ["DS707"]),
    ],
)
def test_rules_about_saving_know_of_the_adapters(tmp_path, monkeypatch, options, codes):
    config = {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3}}
    (tmp_path / "c.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    reports = []
    monkeypatch.setattr(training_runs, "prove_all", lambda linted, _smoke: reports.extend(linted) or [])
    run(["check", "c.json", "--smoke", "--stack", "trainer", "--trainer-args=--bf16", "--isolated", *options])
    ((report, _),) = reports
    assert [one.code for one in report.findings if one.code in ("DS703", "DS707")] == codes


class Wishes:
    """A config that asks for nothing."""

    stage = None


def of_frozen(*evidence, see=observed):
    return [(one.status, one.message) for one in frozen(Wishes(), see(list(evidence)))]


def of_script(train):
    return runs([shown(evidence=evidence) for evidence in train])


def seen(*names, moved=(), is_trainable=False):
    parameters = [TrainedParameter("a", 2), TrainedParameter("b", 2, is_trainable=is_trainable)]
    return Evidence(0, parameters=parameters, frozen=list(names), moved=list(moved))


def test_a_model_without_frozen_weights_is_not_checked_for_them():
    assert of_frozen(seen(is_trainable=True)) == []


def test_frozen_weights_that_stay_and_that_move_on_a_rank():
    assert of_frozen(seen("b"), seen("b")) == [
        ("pass", "1 of 1 frozen tensors are the same bitwise after 3 steps, on every rank")
    ]
    assert of_frozen(seen("b"), seen("b", moved=["b"])) == [("fail", "1 of 1 frozen tensors change in 3 steps (b)")]


def test_what_the_script_itself_changes_is_told():
    told = ("skip", "the script itself changes 1 of them outside `engine.step` (b)")
    assert of_frozen(seen("b"), seen("b", moved=["b"]), see=of_script) == [told]
    in_step = seen("b", moved=["b"])
    in_step.moved_in_step = ["b"]
    assert of_frozen(seen("b"), in_step, see=of_script) == [("fail", "1 of 1 frozen tensors change in 3 steps (b)")]


def test_frozen_weights_on_nvme_are_not_seen():
    assert of_frozen(seen(), seen()) == [("skip", "parameters on NVMe are in memory only while they are used")]

"""``ds-lint doctor`` as a command: what it takes for a log, what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest
from command_line import clean_environment, write_into
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources
from tests.newest import NEWEST

FRAMES = '  File "/env/lib/python3.11/site-packages/deepspeed/'
LOG = f"""\
[2024-03-11 09:12:08,331] [INFO] [launch.py:163:main] dist_world_size=2
[rank0]: Traceback (most recent call last):
[rank0]:   File "/home/me/train.py", line 9, in <module>
[rank0]: {FRAMES}__init__.py", line 569, in initialize
[rank0]: {FRAMES}runtime/engine.py", line 1540, in _do_sanity_check
[rank0]: AssertionError: AdamWW is not a supported DeepSpeed Optimizer
"""
CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "AdamWW", "params": {"lr": 1e-3}},
    "zero_optimization": {"stage": 2},
}
GOOD = CONFIG | {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
HEALTHY = "".join(f"step {step} loss 0.{9 - step}\n" for step in range(6))


@pytest.fixture
def project(tmp_path):
    """A folder with a log and the config of the run."""
    write_into(tmp_path)({"train.log": LOG, "ds.json": CONFIG})
    return tmp_path


def report(run, *words, **more):
    result = run("doctor", *words, "--output-format", "json", **more)
    found = json.loads(result.stdout)
    with open(resources.path("schemas", "doctor.schema.json"), encoding="utf-8") as file:
        Draft7Validator(json.load(file)).validate(found)
    assert result.returncode == (1 if found["causes"] else 0)
    return found


def test_the_finding_of_the_project_explains_the_log(run, project):
    (cause,) = report(run, "train.log", ".")["causes"]
    assert (cause["code"], cause["key"], cause["confidence"]) == ("DS501", "optimizer.type", "certain")
    assert (os.path.basename(cause["path"]), cause["line"]) == ("ds.json", 1)
    assert cause["exception"] == "AssertionError: AdamWW is not a supported DeepSpeed Optimizer"


def test_a_log_alone_has_the_line_of_the_script(run, project):
    (cause,) = report(run, "train.log")["causes"]
    assert (cause["code"], cause["path"], cause["line"]) == ("DS501", "/home/me/train.py", 9)


def test_what_a_log_contradicts_is_named(run, project):
    (project / "steps.log").write_text(HEALTHY)
    found = report(run, "steps.log", "ds.json", "--stack", "deepspeed")
    assert [one["code"] for one in found["contradictions"]] == ["DS501"]
    assert "contradicted: DS501" in run("doctor", "steps.log", "ds.json", "--stack", "deepspeed").stdout


@pytest.mark.parametrize(("release", "contradicted"), [("", []), (NEWEST["deepspeed"], ["DS501"])])
def test_a_config_that_a_log_prints_is_contradicted_only_where_the_release_is_known(
    run, tmp_path, monkeypatch, release, contradicted
):
    monkeypatch.chdir(tmp_path)
    named = f"[INFO] [logging.py:96:log_dist] DeepSpeed info: version={release}, git-hash=unknown\n" if release else ""
    printed = '{\n    "train_batch_size": 8, \n    "optimizer": {"type": "AdamWW"}\n}\n'
    (tmp_path / "train.log").write_text(f"{named}[INFO] [config.py:1003:print]   json = {printed}{HEALTHY}")
    assert [one["code"] for one in report(run, "train.log")["contradictions"]] == contradicted


def test_what_memory_expects_is_named_where_it_ran_out(run, tmp_path):
    """The ranks and the memory of a GPU are those of the log."""
    message = "CUDA out of memory. Tried to allocate 15 GiB. GPU 0 has a total capacity of 39.39 GiB of which 8 GiB"
    log = LOG.replace("AssertionError: AdamWW is not a supported DeepSpeed Optimizer", f"OutOfMemoryError: {message}")
    write_into(tmp_path)({"train.log": log, "ds.json": GOOD | {"bf16": {"enabled": True}}})
    (cause,) = report(run, "train.log", "ds.json", cwd=tmp_path)["causes"]
    assert cause["memory"] == ["no estimate of ds.json: the model is not known; set --model (or --parameters)"]
    write_into(tmp_path)({"run.sh": "deepspeed train.py --model_name_or_path Qwen/Qwen2.5-7B --deepspeed ds.json\n"})
    (cause,) = report(run, "train.log", ".", cwd=tmp_path)["causes"]
    assert (cause["code"], cause["confidence"]) == ("DS852", "certain")
    assert re.match(r"run\.sh:1 needs [\d.]+ GiB \(.*\) on each GPU of 39\.4 GiB", cause["memory"][0])


def test_standard_input(run, project):
    assert report(run, "-", stdin=LOG)["causes"][0]["code"] == "DS501"


def test_the_config_in_the_log_is_checked(run, tmp_path):
    printed = json.dumps(CONFIG, indent=4)
    (tmp_path / "train.log").write_text(f"[INFO] [config.py:1003:print]   json = {printed}\n{LOG}")
    (cause,) = report(run, "train.log")["causes"]
    assert (cause["key"], cause["path"], cause["line"]) == ("optimizer.type", "train.log", 1)


def test_a_notebook_is_a_log_by_its_outputs(run, tmp_path):
    outputs = [{"output_type": "stream", "text": LOG.splitlines(keepends=True)}]
    notebook = {"cells": [{"cell_type": "code", "source": ["!deepspeed train.py"], "outputs": outputs}], "metadata": {}}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    assert report(run, "a.ipynb")["causes"][0]["code"] == "DS501"


def test_a_healthy_log_has_no_cause(run, tmp_path):
    (tmp_path / "train.log").write_text(HEALTHY)
    result = run("doctor", "train.log")
    assert (result.returncode, result.stdout) == (0, "No cause found in 1 log (6 lines).\n")


def test_secrets_and_control_characters_are_masked(run, tmp_path):
    token = "hf_" + "a" * 30
    (tmp_path / "train.log").write_text(f"Traceback (most recent call last):\nOSError: {token} \x07\x1b[31m\u202e\n")
    for words in ((), ("--output-format", "json")):
        shown = run("doctor", "train.log", *words).stdout
        assert token not in shown
        assert not {"\x07", "\x1b", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nothing.log",), "nothing.log: no such file or folder"),
        (("ds.json",), "doctor needs a log"),
        (("--watch", "-"), "--watch follows one log"),
    ],
)
def test_wrong_usage(run, project, words, message):
    result = run("doctor", *words)
    assert result.returncode == 2
    assert message in result.stderr


def test_what_is_no_text_is_counted(run, project):
    (project / "core").write_bytes(b"\0\1" * 100)
    assert report(run, "train.log", "core")["unread"] == 1
    assert run("doctor", "core").returncode == 2


def test_a_fifo_is_not_waited_for_without_end(run, tmp_path):
    (tmp_path / "empty.log").write_text("")
    assert run("doctor", "empty.log").returncode == 0


# ------------------------------------------------------------------------------------------------------ while it runs


@pytest.fixture
def watched(tmp_path):
    """Starts ``doctor --watch`` on a log, and waits until it follows it."""
    running = []

    def start(*words):
        process = subprocess.Popen(
            [sys.executable, "-m", "ds_lint", "doctor", "--watch", "train.log", *words],
            cwd=tmp_path,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        running.append(process)
        assert process.stderr.readline().startswith("Following train.log")
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


def write(path, text):
    with open(path, "a", encoding="utf-8") as file:
        file.write(text)


def test_a_run_that_turns_odd_ends_it(watched, tmp_path):
    write(tmp_path / "train.log", HEALTHY)
    process = watched()
    for step in range(4):
        write(tmp_path / "train.log", f"{{'loss': nan, 'grad_norm': nan, 'epoch': 0.{step}}}\n")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "since line 7" in out


def test_a_killed_process_ends_it(watched, tmp_path):
    write(tmp_path / "train.log", HEALTHY)
    process = watched()
    write(tmp_path / "train.log", "['python', 'train.py', '--local_rank=0'] exits with return code = -9\n")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, "SIGKILL" in out) == (1, True)


def test_a_stalled_run_ends_it(watched, tmp_path):
    write(tmp_path / "train.log", HEALTHY)
    process = watched("--stalled", "1")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, "no new line" in out) == (1, True)


def test_it_ends_with_the_run(watched, tmp_path):
    write(tmp_path / "train.log", f"[INFO] [launch.py:163:main] dist_world_size=1\n{HEALTHY}")
    process = watched()
    write(tmp_path / "train.log", "[INFO] [launch.py:285:main] Process 28194 exits successfully.\n")
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_another_file_under_the_name_is_read_from_its_start(watched, tmp_path):
    write(tmp_path / "train.log", HEALTHY * 50)
    process = watched()
    (tmp_path / "next").write_text("{'loss': 0.0, 'grad_norm': nan}\n" * 4)
    os.replace(tmp_path / "next", tmp_path / "train.log")
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, "since line 1" in out) == (1, True)


# -------------------------------------------------------------------------------------------------------------- by text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("loss is nan", "The loss is NaN"),
        ("OVERFLOW", "overflow"),
        ("exits with return code = -9", "SIGKILL"),
        ("exit code 137", "SIGKILL"),
        ("RuntimeError: 'weight' must be 2-D", "partitioned"),
        ("CUDA out of memory", "The GPU is out of memory"),
        ("Weights only load failed", "weights_only"),
        ("AssertionError: AdamWW is not a supported DeepSpeed Optimizer", "DS501"),
    ],
)
def test_explain_takes_a_text(run, text, words):
    result = run("explain", text)
    assert result.returncode == 0
    assert words in result.stdout


def test_a_misspelled_key_is_still_a_key(run):
    assert "did you mean zero_optimization?" in run("explain", "zero_optmization").stderr

"""A config that the real libraries reject in a script: it fails, with the finding that predicts it."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest
from command_line import clean_environment
from installed import measured_with_the_newest

pytestmark = [
    measured_with_the_newest,
    pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="takes the extra smoke"),
    pytest.mark.fidelity,
]

PATIENCE = 200
USERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "users")
PLAIN = (sys.executable, os.path.join(USERS, "plain.py"), "--deepspeed_config", "config.json")
TRAINER = (sys.executable, os.path.join(USERS, "trainer.py"), "--output_dir", "out", "--report_to", "none")
TRAINER += ("--deepspeed", "config.json", "--model", "model", "--per_device_train_batch_size", "2")
OPTIMIZER = {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}
MICRO = {"train_micro_batch_size_per_gpu": 2}
MODEL = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 256, "hidden_size": 64}
RANK = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}


@pytest.fixture
def smoke(tmp_path, monkeypatch, unused_port):
    """Run a command with a config: the status, what is said, what confirms each error, and the runs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text(json.dumps(MODEL))

    def smoke(command, config):
        text = config if isinstance(config, str) else json.dumps(config)
        (tmp_path / "config.json").write_text(text)
        done = subprocess.run(
            [sys.executable, "-m", "ds_lint", "smoke", "--isolated", "--cpu", "--shrink", "--output-format", "json",
             "--", *command],
            env=clean_environment() | RANK | {"MASTER_PORT": str(unused_port)},
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        report = json.loads(done.stdout)
        confirmed = {one["code"]: one.get("confirmed") for one in report["findings"] if one["severity"] == "error"}
        return done.returncode, done.stderr, confirmed, report.get("smoke", [])

    return smoke


@pytest.mark.parametrize(
    ("config", "code"),
    [
        pytest.param({**MICRO, **OPTIMIZER, "zero_optimization": {"stage": 9}}, "DS201", id="a value"),
        pytest.param({**MICRO, **OPTIMIZER, "train_batch_size": 7}, "DS512", id="batch", marks=pytest.mark.long),
        pytest.param('{"train_batch_size":', "DS006", id="syntax", marks=pytest.mark.long),
    ],
)
def test_a_config_that_initialize_rejects_fails_and_confirms_the_finding(smoke, config, code):
    status, said, confirmed, (run,) = smoke(PLAIN, config)
    assert (status, run["status"]) == (1, "fail"), said[-3000:]
    assert list(confirmed) == [code]
    assert confirmed[code].startswith("the run raises ")
    assert "in deepspeed.initialize" in run["checks"][0]["message"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        (
            {"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}},
            "DS610",
            "mismatch TrainingArguments",
        ),
        ({"train_micro_batch_size_per_gpu": 2}, "DS601", "Please specify the ZeRO optimization config"),
    ],
)
def test_a_config_that_the_trainer_rejects_before_it_fails_too(smoke, config, code, words):
    status, said, confirmed, (run,) = smoke(TRAINER, config)
    assert (status, run["status"]) == (1, "fail"), said[-3000:]
    assert list(confirmed) == [code]
    assert words in confirmed[code]


@pytest.mark.long
def test_another_error_of_a_library_confirms_nothing(smoke):
    """An argument that is unknown to the script."""
    config = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 9}}
    status, said, confirmed, (run,) = smoke((*TRAINER, "--nonsense"), config)
    assert (status, run["status"]) == (2, "error"), said[-3000:]
    assert confirmed == {"DS201": None}


@pytest.mark.long
def test_a_config_that_is_not_there_rejects_nothing(smoke):
    command = (*PLAIN[:-1], "absent.json")
    status, said, confirmed, runs = smoke(command, {})
    assert (status, confirmed, runs) == (2, {}, []), said[-3000:]
    assert "absent.json" in said.splitlines()[-1]

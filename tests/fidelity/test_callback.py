"""The callback stops a run before its model is loaded, and lets a good one be."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("transformers")
pytest.importorskip("deepspeed")

import transformers

import ds_lint

pytestmark = pytest.mark.fidelity

ZERO = {"stage": 2, "offload_optimizer": {"device": "cpu"}}  # which has a purpose on one rank
GOOD = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": ZERO, "gradient_clipping": "auto"}
TYPO = {**GOOD, "gradient_cliping": 1.0}


@pytest.fixture
def arguments(tmp_path, monkeypatch):
    """Makes training arguments with this DeepSpeed config."""
    monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "cpu")

    def make(config, **others):
        return transformers.TrainingArguments(str(tmp_path / "out"), deepspeed=config, report_to="none", **others)

    yield make
    transformers.integrations.deepspeed.unset_hf_deepspeed_config()


def test_a_good_config_is_let_be(arguments, capsys):
    ds_lint.TrainerCallback(arguments(GOOD))
    assert capsys.readouterr().err == ""


def test_a_bad_config_stops_the_run_where_the_callback_is_made(arguments, capsys):
    with pytest.raises(ds_lint.ConfigError, match="DS101 unknown key `gradient_cliping`") as raised:
        ds_lint.TrainerCallback(arguments(TYPO))
    assert [finding.code for finding in raised.value.findings] == ["DS101"]
    assert "gradient_cliping" in capsys.readouterr().err


def test_a_file_is_linted_as_a_file(arguments, tmp_path, capsys):
    path = tmp_path / "ds_config.json"
    path.write_text(json.dumps(TYPO, indent=2), encoding="utf-8")
    with pytest.raises(ds_lint.ConfigError):
        ds_lint.TrainerCallback(arguments(str(path)))
    assert f"{path}:10:3" in capsys.readouterr().err


def test_the_callback_of_a_trainer_lints_when_the_trainer_is_built(arguments):
    callback = ds_lint.TrainerCallback()
    with pytest.raises(ds_lint.ConfigError):
        callback.on_init_end(arguments(TYPO), None, None)


def test_what_is_ignored_or_not_severe_enough_stops_nothing(arguments, capsys):
    ds_lint.TrainerCallback(arguments(TYPO), ignore=["unknown-key"])
    assert capsys.readouterr().err == ""
    ds_lint.TrainerCallback(arguments(TYPO), fail_on=None)
    assert "gradient_cliping" in capsys.readouterr().err


def test_another_rank_is_silent_and_stops_as_well(arguments, capsys, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ds_lint.ConfigError):
        ds_lint.TrainerCallback(arguments(TYPO))
    assert capsys.readouterr().err == ""


def test_a_model_that_is_not_downloaded_yet_stops_nothing(arguments):
    ds_lint.TrainerCallback(arguments(GOOD), model="no-such/model")


def test_a_run_without_deepspeed_is_none_of_its_business(arguments):
    ds_lint.TrainerCallback(arguments(None))


def test_a_severity_that_there_is_not_raises():
    with pytest.raises(ValueError, match="fail_on must be one of error, warning, info or None, not 'fatal'"):
        ds_lint.TrainerCallback(fail_on="fatal")


def test_importing_ds_lint_imports_no_transformers():
    code = "import sys, ds_lint; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

"""``ds-lint upgrade``: what changes for a config between two releases, and nothing that does not."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator
from newest import NEWEST

from ds_lint.knowledge import resources
from ds_lint.output import FORMATS

CONFIG = {
    "train_batch_size": 8,
    "gradient_cliping": 0.5,
    "amp": {"enabled": False},
    "aio": {"thread_count": 2},
    "torch_autocast": {"enabled": True},
    "bf16": {"enabled": True, "typo": 1},
    "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "cpu_offload_use_pin_memory": False},
    "optimizer": {"type": "OneBitAdam", "params": {"lr": 1e-4}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}},
}
AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_clipping": "auto",
    "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "auto"}},
}


@pytest.fixture
def upgrade(run, tmp_path):
    def upgrade(config, *arguments):
        (tmp_path / "ds_config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
        return run("upgrade", *arguments, "ds_config.json")

    return upgrade


def found(result):
    return {(one["code"], one["key"], one["severity"]) for one in json.loads(result.stdout)["findings"]}


def test_everything_that_changes(upgrade):
    result = upgrade(CONFIG, "--from", "0.14.4", "--to", "0.19.8", "--stack", "deepspeed", "--output-format", "json")
    assert found(result) == {
        ("DS103", "amp", "error"),  # refused
        ("DS101", "aio.thread_count", "error"),  # no longer read
        ("DS122", "torch_autocast", "warning"),  # read from now on
        ("DS414", "torch_autocast.enabled", "warning"),  # and in vain, beside bf16
        ("DS101", "bf16.typo", "error"),  # was passed over, is refused
        ("DS501", "optimizer.type", "error"),
        ("DS504", "scheduler.params.warmup_num_steps", "error"),
        ("DS121", "gradient_clipping", "warning"),
        ("DS121", "zero_optimization.offload_optimizer.pin_memory", "warning"),
        ("DS121", "scheduler.params.warmup_max_lr", "warning"),
        ("DS121", "steps_per_print", "info"),
    }  # and not gradient_cliping, which neither release reads
    assert result.returncode == 1


@pytest.mark.parametrize("is_on", [True, False])
def test_a_newly_read_section_matters_where_it_is_switched_on(upgrade, is_on):
    config = {"train_batch_size": 8, "torch_autocast": {"enabled": is_on}}
    result = upgrade(config, "--from", "0.16.9", "--to", "0.18.9", "--output-format", "json")
    assert ("DS122" in {code for code, _, _ in found(result)}) == is_on


def test_a_new_default_of_a_parameter_names_its_release(upgrade):
    config = {
        "train_batch_size": 8,
        "optimizer": {"type": "AdamW", "params": {}},
        "scheduler": {"type": "WarmupLR", "params": {}},
    }
    result = upgrade(config, "--from", "0.14.4", "--to", "0.18.9", "--output-format", "json")
    (message,) = [one["message"] for one in json.loads(result.stdout)["findings"] if "WarmupLR" in one["message"]]
    assert "from 0.001 to null in DeepSpeed 0.17.2" in message


def test_each_says_since_when(upgrade):
    result = upgrade(CONFIG, "--from", "0.14.4", "--to", "0.19.8", "--stack", "deepspeed", "--output-format", "json")
    report = json.loads(result.stdout)
    since = {one["key"]: one["releases"]["deepspeed"][-1]["since"] for one in report["findings"] if "releases" in one}
    assert since == {
        "amp": "0.19.8",
        "aio.thread_count": "0.16.4",
        "bf16.typo": "0.17.1",
        "optimizer.type": "0.19.7",
        "torch_autocast.enabled": "0.17.2",
        "scheduler.params.warmup_num_steps": "0.19.3",
    }
    assert report["files"][0]["ranges"] == {"deepspeed": {"since": "0.14.4", "until": "0.19.8"}}
    with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as file:
        Draft7Validator(json.load(file)).validate(report)


def test_a_smaller_step_changes_less(upgrade):
    result = upgrade(CONFIG, "--from", "0.17.1", "--to", "0.18", "--output-format", "json")
    assert found(result) == {
        ("DS122", "torch_autocast", "warning"),
        ("DS414", "torch_autocast.enabled", "warning"),
        ("DS121", "scheduler.params.warmup_max_lr", "warning"),
    }


def test_nothing_changes(upgrade):
    config = {"train_batch_size": 8, "gradient_clipping": 1.0, "steps_per_print": 10}
    result = upgrade(config, "--from", "0.14.4")
    assert result.returncode == 0
    assert "ds_config.json: no findings." in result.stdout
    assert f"only changes are reported: deepspeed 0.14.4 to {NEWEST['deepspeed']}" in result.stdout


def test_an_upgrade_of_transformers(upgrade):
    result = upgrade(AUTO, "--transformers-from", "5.18.0", "--transformers-to", "5.22.2",
                     "--stack", "trainer", "--output-format", "json")  # fmt: skip
    assert found(result) == set()
    result = upgrade(AUTO, "--from", "0.14.4", "--transformers-from", "4.40", "--transformers-to", "4.44",
                     "--stack", "trainer", "--output-format", "json")  # fmt: skip
    assert found(result) == {
        ("DS604", "zero_optimization.stage3_prefetch_bucket_size", "error"),
        ("DS603", "scheduler.params.warmup_num_steps", "warning"),
        ("DS121", "scheduler.params.warmup_max_lr", "warning"),
    }


@pytest.mark.parametrize("output_format", sorted(FORMATS))
def test_every_output_format(upgrade, output_format):
    result = upgrade(CONFIG, "--from", "0.14.4", "--output-format", output_format)
    assert (result.returncode, result.stderr) == (1, "")
    assert "DS103" in result.stdout


def test_verbose_says_which_releases(upgrade, tmp_path):
    (tmp_path / "requirements.txt").write_text("transformers==4.57.6\n", encoding="utf-8")
    shown = upgrade(CONFIG, "--from", "0.18.5", "--to", "0.18.9", "-v").stdout
    assert "checked against deepspeed 0.18.5 to 0.18.9 (asked for), transformers 4.57.6 (requirements.txt:1)," in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "upgrade needs the old release: --from, "),
        (["--to", "0.18.9"], "--to needs --from"),
        (["--transformers-to", "5.0.0"], "--transformers-to needs --transformers-from"),
        (["--from", "0.16.77"], "ds-lint does not know DeepSpeed 0.16.77"),
        (["--from", "0.18.9", "--to", "0.14.4"], "DeepSpeed 0.14.4 is older than 0.18.9"),
    ],
)
def test_wrong_usage_is_one_line(upgrade, arguments, complaint):
    result = upgrade(CONFIG, *arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert complaint in result.stderr


UNREADABLE = {None: '{"zero_optimization": ', "trainer": '{"train_batch_size": 8, // why\n"bf16": {"enabled": true}}'}


@pytest.mark.parametrize("stack", UNREADABLE)
@pytest.mark.parametrize("output_format", sorted(FORMATS))
def test_a_text_that_cannot_be_parsed_is_said_to_be_one_and_the_others_are_compared(
    run, tmp_path, stack, output_format
):
    (tmp_path / "cut.json").write_text(UNREADABLE[stack], encoding="utf-8")
    (tmp_path / "whole.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    loaded_by = ["--stack", stack] if stack else []
    result = run("upgrade", "--from", "0.14.4", "--output-format", output_format, *loaded_by, "cut.json", "whole.json")
    assert result.returncode == 2
    assert result.stderr == "ds-lint: cut.json: cannot be parsed; run ds-lint check to see why\n"
    assert "DS103" in result.stdout
    if output_format == "json":
        report = json.loads(result.stdout)
        assert {finding["path"] for finding in report["findings"]} == {"whole.json"}
        assert [file["path"] for file in report["files"] if "error" in file] == ["cut.json"]


@pytest.mark.parametrize("text", ['{"train_batch_size": {{ size }}}', '{"train_batch_size": 8} // hjson reads it'])
def test_what_a_stack_can_parse_is_compared(run, tmp_path, text):
    (tmp_path / "ds.json").write_text(text, encoding="utf-8")
    result = run("upgrade", "--from", "0.14.4", "ds.json")
    assert (result.returncode, result.stderr) == (1, "")
    assert "DS121" in result.stdout

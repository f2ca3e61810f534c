"""``ds-lint effective``: what a config is when the stack uses it, and the source of each value."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator
from newest import FLAGS, NEWEST

from ds_lint.knowledge import resources
from ds_lint.output import effective_values
from ds_lint.output.terminal import Terminal
from ds_lint.semantics.effective import Value

CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 2,
    "gradient_clipping": "auto",
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"},
}
ARGUMENTS = ("--trainer-args", "--per_device_train_batch_size 4 --gradient_accumulation_steps 2")


@pytest.fixture
def ds(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text(json.dumps(CONFIG, indent=2), encoding="utf-8")
    return path


def lines(result):
    return {line.split(" = ")[0]: " ".join(line.split(" = ")[1].split()) for line in result.stdout.splitlines()}


def test_every_value_says_who_gave_it(run, ds):
    result = run("effective", "ds.json", *ARGUMENTS, *FLAGS)
    assert (result.returncode, result.stderr) == (0, "")
    found = lines(result)
    assert found["train_micro_batch_size_per_gpu"] == "4 filled by the Trainer with per_device_train_batch_size"
    assert found["gradient_accumulation_steps"] == "2 written, ds.json:3"
    assert found["gradient_clipping"] == "1.0 filled by the Trainer with max_grad_norm"
    assert found["zero_optimization.reduce_bucket_size"] == "? filled by the Trainer with hidden_size ** 2"
    assert found["zero_optimization.overlap_comm"] == f"null default of DeepSpeed {NEWEST['deepspeed']}"
    assert found["bf16.enabled"] == "false added by Accelerate"
    assert found["steps_per_print"] == '"inf" overwritten by Accelerate with inf'
    assert "aio.block_size" not in found


def test_all_has_the_defaults_of_every_section(run, ds):
    found = lines(run("effective", "ds.json", "--all", *ARGUMENTS, *FLAGS))
    assert found["aio.block_size"] == f"1048576 default of DeepSpeed {NEWEST['deepspeed']}"


def test_parameters_have_the_defaults_of_their_constructor(run, ds):
    ds.write_text(json.dumps({**CONFIG, "optimizer": {"type": "AdamW"}}), encoding="utf-8")
    assert lines(run("effective", "ds.json", *ARGUMENTS))["optimizer.params.lr"] == "0.001 default of FusedAdam"


def test_parameters_of_other_constructors_are_not_shown(run, ds):
    ds.write_text(json.dumps({**CONFIG, "scheduler": {"type": "WarmupLR"}}), encoding="utf-8")
    found = [
        line.split(" = ")[0] for line in run("effective", "ds.json", "--all", *ARGUMENTS, *FLAGS).stdout.split("\n")
    ]
    assert "scheduler.params.warmup_type" in found
    assert "scheduler.params.warmup_max_lr" not in found  # the optimizer's learning rate, whichever that is
    assert "scheduler.params.cycle_max_mom" not in found


def test_no_key_is_shown_twice(run, ds):
    offload = {"stage": 2, "offload_optimizer": {"device": "cpu"}}
    ds.write_text(json.dumps({"optimizer": {"type": "AdamW"}, "zero_optimization": offload}), encoding="utf-8")
    found = [line.split(" = ")[0] for line in run("effective", "ds.json", "--stack", "deepspeed").stdout.splitlines()]
    assert "optimizer.params.fp32_optimizer_states" in found
    assert len(found) == len(set(found))


def test_plain_deepspeed_gets_what_is_written(run, ds):
    ds.write_text('{"train_batch_size": 8, "zero_optimization": {"stage": 1}}', encoding="utf-8")
    found = lines(run("effective", "ds.json", "--stack", "deepspeed", *FLAGS))
    assert found["zero_optimization.stage"] == "1 written, ds.json:1"
    assert "bf16.enabled" not in found


def test_json_is_what_its_schema_says(run, ds):
    with open(resources.path("schemas", "effective.schema.json"), encoding="utf-8") as file:
        schema = json.load(file)
    Draft7Validator.check_schema(schema)
    for more in ((), ("--against", "ds.json"), ("--all",)):
        report = json.loads(run("effective", "ds.json", *ARGUMENTS, "--output-format", "json", *more).stdout)
        Draft7Validator(schema).validate(report)


def test_json_tells_what_is_unknown(run, ds):
    report = json.loads(run("effective", "ds.json", *ARGUMENTS, "--output-format", "json").stdout)
    found = {value["key"]: value for value in report["values"]}
    bucket = found["zero_optimization.reduce_bucket_size"]
    assert (bucket["is_known"], bucket["value"], bucket["by"]) == (False, None, "filled")
    assert found["steps_per_print"]["value"] == "inf"


def test_against_prints_what_differs(run, ds, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps({**CONFIG, "gradient_clipping": 0.5}), encoding="utf-8")
    result = run("effective", "ds.json", "--against", "other.json", *ARGUMENTS)
    assert result.returncode == 1
    assert [" ".join(line.split()) for line in result.stdout.splitlines()] == [
        "- gradient_clipping = 1.0 filled by the Trainer with max_grad_norm",
        "+ gradient_clipping = 0.5 written, other.json:1",
    ]


def test_the_same_in_other_words_is_no_difference(run, ds, tmp_path):
    (tmp_path / "other.json").write_text(json.dumps({**CONFIG, "gradient_clipping": 1}), encoding="utf-8")
    result = run("effective", "ds.json", "--against", "other.json", *ARGUMENTS)
    assert (result.returncode, result.stdout) == (0, "")


def test_a_config_that_is_refused_says_by_what(run, ds):
    ds.write_text(json.dumps({**CONFIG, "gradient_clipping": 0.5}), encoding="utf-8")
    result = run("effective", "ds.json", *ARGUMENTS)
    assert result.returncode == 0
    assert result.stderr.startswith("note: ds.json is rejected: DS610 `gradient_clipping` is 0.5, but `max_grad_norm`")
    assert lines(result)["gradient_clipping"] == "0.5 written, ds.json:1"


def test_without_training_arguments_it_says_what_is_missing(run, ds):
    result = run("effective", "ds.json", "--stack", "trainer")
    assert lines(result)["gradient_clipping"] == "? filled by the Trainer with max_grad_norm"
    assert result.stderr == "note: ds.json: ? depends on the training arguments (set --trainer-args)\n"


def test_what_cannot_be_read_is_2(run, ds):
    assert run("effective", "missing.json").returncode == 2
    assert run("effective", "ds.json", "--trainer-args", "missing.yaml").returncode == 2
    assert run("effective", "ds.json", "--deepspeed-version", "latest").returncode == 2


def test_the_settings_of_the_project_tell_the_facts(run, ds, tmp_path):
    settings = '[[configs]]\npath = "ds.json"\ntrainer-args = "--max_grad_norm 0.3"\n'
    (tmp_path / "ds-lint.toml").write_text(settings, encoding="utf-8")
    assert lines(run("effective", "ds.json"))["gradient_clipping"].startswith("0.3 filled by the Trainer")
    assert lines(run("effective", "ds.json", "--isolated"))["gradient_clipping"].startswith('"auto" written')


def test_standard_input_can_be_shown(run):
    result = run("effective", "-", "--stack", "deepspeed", stdin='{"train_batch_size": 8}')
    assert lines(result)["train_batch_size"] == "8 written, <stdin>:1"


def test_in_a_narrow_terminal_sources_are_not_pushed_out_by_the_longest_value():
    values = [
        Value(("fp16", "enabled"), value=True, by="written", source="written, ds.json:3"),
        Value(("zero_optimization", "stage3_prefetch_bucket_size"), value=5, by="written", source="written, ds.json:4"),
    ]
    assert effective_values.lines(values, Terminal(60)) == [
        "fp16.enabled = true   written, ds.json:3",
        "zero_optimization.stage3_prefetch_bucket_size = 5",
        "                      written, ds.json:4",
    ]


def test_in_a_pipe_the_longest_value_does_not_touch_its_source():
    path = ("zero_optimization", "stage3_gather_16bit_weights_on_model_save")
    values = [
        Value(("fp16", "enabled"), value=True, by="written", source="written, ds.json:3"),
        Value(path, value=True, by="written", source="written, ds.json:4"),
    ]
    assert effective_values.lines(values, Terminal(None)) == [
        "fp16.enabled = true   written, ds.json:3",
        f"{'.'.join(path)} = true   written, ds.json:4",
    ]


@pytest.mark.parametrize("output_format", ["text", "json"])
def test_a_text_that_no_stack_reads_has_no_values(run, tmp_path, output_format):
    (tmp_path / "cut.json").write_text('{"zero_optimization": ', encoding="utf-8")
    result = run("effective", "cut.json", "--output-format", output_format)
    said = "ds-lint: cut.json cannot be read by any library; run ds-lint check to see why\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)


@pytest.mark.parametrize(
    ("written", "stage", "bucket"),
    [
        ("true", "1 written as true, ds.json:2", "1000 written as allgather_size, ds.json:1"),
        ("false", "0 written as false, ds.json:2", f"500000000 default of DeepSpeed {NEWEST['deepspeed']}"),
    ],
)
def test_a_boolean_zero_section_is_a_stage(run, ds, written, stage, bucket):
    ds.write_text(
        f'{{"train_batch_size": 8, "allgather_size": 1000,\n"zero_optimization": {written}}}', encoding="utf-8"
    )
    found = lines(run("effective", "ds.json", "--stack", "deepspeed", *FLAGS))
    assert found["zero_optimization.stage"] == stage
    assert found["zero_optimization.allgather_bucket_size"] == bucket
    assert "zero_optimization" not in found


SAME = [  # what a config has more, none of which changes anything
    {"aio": {"block_size": 1048576}},
    {"fp16": {}},
    {"flops_profiler": {"enabled": False}},
    {"zero_optimization": {"stage": 2, "offload_param": {"device": "none"}}},
    {"activation_checkpointing": {"partition_activations": False}},
]


@pytest.mark.parametrize("more", SAME, ids=lambda more: next(iter(more)))
def test_a_section_with_the_defaults_is_no_difference(run, ds, tmp_path, more):
    plain = {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    ds.write_text(json.dumps(plain), encoding="utf-8")
    (tmp_path / "other.json").write_text(json.dumps({**plain, **more}), encoding="utf-8")
    for pair in (("ds.json", "other.json"), ("other.json", "ds.json")):
        result = run("effective", pair[0], "--against", pair[1], "--stack", "deepspeed", *FLAGS)
        assert (result.returncode, result.stdout) == (0, "")


def test_a_second_name_of_a_key_is_no_difference(run, ds, tmp_path):
    for name, key in (("ds.json", "stage3_prefetch_bucket_size"), ("other.json", "prefetch_bucket_size")):
        content = {"train_batch_size": 8, "zero_optimization": {"stage": 3, key: 1000}}
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    result = run("effective", "ds.json", "--against", "other.json", "--stack", "deepspeed", *FLAGS)
    assert (result.returncode, result.stdout) == (0, "")


def test_every_line_of_a_difference_differs(run, ds, tmp_path):
    """Of a section that only one config has, the defaults are those that the other has without it."""
    other = {
        **CONFIG,
        "fp16": {"enabled": True, "loss_scale": 0},
        "flops_profiler": {"profile_step": 2},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "none"}},
    }
    (tmp_path / "other.json").write_text(json.dumps(other, indent=2), encoding="utf-8")
    arguments = ("--trainer-args", "--per_device_train_batch_size 4 --gradient_accumulation_steps 2 --fp16")
    result = run("effective", "ds.json", "--against", "other.json", *arguments, *FLAGS)
    assert [" ".join(line.split()[:4]) for line in result.stdout.splitlines()] == [
        "- zero_optimization.stage = 2",
        "+ zero_optimization.stage = 3",
        "- zero_optimization.reduce_bucket_size = ?",
        "+ zero_optimization.reduce_bucket_size = 500000000",
        "- fp16.auto_cast = true",  # where there is no section, Accelerate adds one
        "+ fp16.auto_cast = false",
        "- flops_profiler.profile_step = 1",
        "+ flops_profiler.profile_step = 2",
        '- zero_optimization.offload_optimizer.device = "none"',
        '+ zero_optimization.offload_optimizer.device = "cpu"',
    ]


def test_a_section_that_may_be_added_has_no_defaults(run, ds):
    found = lines(run("effective", "ds.json", "--stack", "trainer", *FLAGS))
    assert found["bf16"].startswith("? added by Accelerate")
    assert "bf16.enabled" not in found

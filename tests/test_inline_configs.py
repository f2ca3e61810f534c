"""DeepSpeed configs that are mappings inside of other YAML, JSON and TOML files."""

import json

import pytest
from command_line import write_into

from ds_lint.source import documents


@pytest.fixture
def write(tmp_path):
    return write_into(tmp_path)


SECTION = "zero_optimization: {stage: 3, offload_optimiser: {device: cpu}}"
TYPO = ("DS101", "zero_optimization.offload_optimiser")


def found(text, path="run.yml"):
    return documents.configs_found_in(text.encode(), path)


def findings(run, *names):
    report = json.loads(run("check", *names, "--output-format", "json").stdout)
    return [(one["code"], one["key"]) for one in report["findings"]]


@pytest.mark.parametrize(
    ("name", "text", "key"),
    [
        ("run.yml", f"type: sft\ndeepspeed:\n  {SECTION}\nmodel: {{a: b}}\n", "deepspeed"),
        ("run.yml", f"trainer:\n  deepspeed_config:\n    {SECTION}\n", "trainer.deepspeed_config"),
        ("run.yml", f"trainer: {{strategy: {{type: deepspeed, {SECTION}}}}}\n", "trainer.strategy"),
        ("run.yml", f"runs:\n- name: a\n  ds:\n    {SECTION}\n    bf16: {{enabled: true}}\n", "runs.0.ds"),
        ("run.yml", f"trainer: {{ds: {{strategy: x, own: y, a: 1, {SECTION}}}}}\n", "trainer.ds"),
        ("conf/ds/z3.yaml", f"# @package _global_.deepspeed\n{SECTION}\n", ""),
        ("run.json", json.dumps({"a": {"b": {"zero_optimization": {"stage": 3, "offload_optimiser": {}}}}}), "a.b"),
        ("run.toml", "x = 1\n[a.ds.zero_optimization]\nstage = 3\noffload_optimiser = {device = 'cpu'}\n", "a.ds"),
    ],
)
def test_a_mapping_is_linted_in_place(run, write, name, text, key):
    write({name: text})
    expected = TYPO[0], ".".join(filter(None, (key, TYPO[1])))
    assert findings(run, ".") == [expected]
    assert findings(run, name) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed: {enabled: true, stage: 2}\n",
        "deepspeed: {enable_deepspeed: true, zero_stage: 3, offload_optimizer: {device: cpu}}\n",
        "deepspeed: {zero_stage: 3, bf16: true, adam_offload: true, zpg: 1}\n",
        "optimizer: {name: adamw}\nscheduler: {name: cosine}\n",
        "model: {optimizer: {type: AdamW}, scheduler: {type: cosine}, fp16: {enabled: true}}\n",
        "properties: {zero_optimization: {type: object, properties: {stage: {type: integer}}}}\n",
        "zero_optimization: {stage: {type: int, default: 1}, overlap_comm: {type: bool}}\n",
        "search: {zero_optimization: {stage: [1, 2, 3], overlap_comm: [true, false]}}\n",
        "a: 1\nb: 2\nc: 3\nd: 4\nzero_optimization: {stage: 1, overlap_com: true}\n",
    ],
)
def test_settings_of_other_tools_are_none(text):
    assert found(text) == []


def test_what_reads_the_file_may_have_keys_of_its_own(run, write):
    write({"a.yaml": "deepspeed: {run_name: x, stage: 3, hostfile: h, zero_optimization: {stage: 2, engine: y}}\n"})
    assert findings(run, ".") == []


def test_a_key_of_another_release_or_a_value_is_reported(run, write):
    write({"a.yaml": "deepspeed: {gradient_cliping: 1.0, zero_optimization: {stage: 7}}\n"})
    assert findings(run, ".") == [
        ("DS101", "deepspeed.gradient_cliping"),
        ("DS201", "deepspeed.zero_optimization.stage"),
    ]


@pytest.mark.parametrize("value", ["${stage}", "${oc.env:STAGE,3}", "???", "{{ stage }}", "$STAGE", "<STAGE>"])
def test_what_is_filled_in_is_not_known(value):
    (document,) = found(f"deepspeed: {{zero_optimization: {{stage: '{value}', overlap_comm: true}}}}\n")
    assert document.root.at(("zero_optimization", "stage")).kind == "template"


def test_a_number_with_an_exponent_is_one():
    (document,) = found("deepspeed: {zero_optimization: {stage: 3, reduce_bucket_size: 5e8}}\n")
    assert document.root.at(("zero_optimization", "reduce_bucket_size")).value == 5e8


def test_batch_sizes_may_come_later(run, write):
    write({"a.yaml": "deepspeed: {zero_optimization: {stage: 2}, bf16: {enabled: true}}\n"})
    assert findings(run, ".") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "strategy:\n  _target_: lightning.pytorch.strategies.DeepSpeedStrategy\n  stage: 3\n  cpu_offload: true\n",
            [("DS680", "strategy.cpu_offload")],
        ),
        (
            "strategy:\n  class_path: pytorch_lightning.strategies.DeepSpeedStrategy\n  init_args: {stage: 4}\n",
            [("DS201", "strategy.init_args.stage")],
        ),
        (
            f"strategy:\n  _target_: lightning.pytorch.strategies.DeepSpeedStrategy\n  config:\n    {SECTION}\n",
            [("DS101", f"strategy.config.{TYPO[1]}")],
        ),
        (f"x:\n  _target_: deepspeed.initialize\n  config:\n    {SECTION}\n", [("DS101", f"x.config.{TYPO[1]}")]),
        ("strategy:\n  _target_: my.DeepSpeedStrategy\n  stage: 4\n", []),
    ],
)
def test_an_instance_that_a_file_describes(run, write, text, expected):
    write({"a.yaml": text})
    assert [one for one in findings(run, ".") if one[0] in ("DS101", "DS201", "DS680")] == expected


def test_comments_suppress(run, write):
    text = "deepspeed:\n  zero_optimization:\n    stage: 3\n    overlap_com: true  # ds-lint: ignore[DS101]\n"
    write({"a.yaml": text})
    assert findings(run, ".") == []

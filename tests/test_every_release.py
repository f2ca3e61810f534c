"""Every known release of DeepSpeed can be linted with, whatever its schema has not yet or no longer."""

from __future__ import annotations

import json

import pytest
from linted import lint_bytes
from newest import NEWEST

from ds_lint.facts import Facts, training
from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import Target
from ds_lint.linter.engine import every_rule

AUTOS = {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": True}}
OFFLOADED = {"cpu_offload": True, "offload_param": {"device": "cpu"}, "round_robin_gradients": True}
ADAPTER = "--lora_r 8 --save_only_model --resume_from_checkpoint runs"


@pytest.mark.parametrize("stage", [1, 2, 3, "auto", "3"])
@pytest.mark.parametrize("stack", ["trainer", "accelerate", "deepspeed", None])
def test_every_release_can_be_linted_with(stage, stack):
    facts = Facts(training=training.arguments_of(ADAPTER)) if stack == "trainer" else Facts()
    for release in tables.load("deepspeed")["releases"]:
        for section in ({"stage": stage}, {"stage": stage, **OFFLOADED}):
            text = json.dumps({**AUTOS, "zero_optimization": section}).encode()
            lint_bytes(text, "d.json", target=Target(release), stack=stack, facts=facts, rules=every_rule())


@pytest.mark.parametrize(("release", "is_told"), [("0.3.13", False), ("0.3.14", True), (NEWEST["deepspeed"], True)])
def test_nothing_says_to_gather_weights_before_a_release_can(release, is_told):
    text = json.dumps({**AUTOS, "zero_optimization": {"stage": 3}}).encode()
    report = lint_bytes(text, "d.json", target=Target(release), stack="trainer")
    assert ("DS703" in [one.code for one in report.findings]) is is_told

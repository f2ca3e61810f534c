"""Batch sizes on ranks that the user started: kept where they fit, and made to fit where they do not."""

from __future__ import annotations

import json

import pytest
from linted import config_of

from ds_lint.diagnostics.verdict import CPU
from ds_lint.facts import Facts
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.knowledge.keys import Target
from ds_lint.smoke.expected.adaptation import adapt
from ds_lint.source import documents


def changed(config, *, ranks, stack="deepspeed", arguments=None):
    """The batch sizes that a run of a real world has otherwise."""
    given = {name: Argument(value, "a test") for name, value in (arguments or {}).items()}
    facts = Facts(training=TrainingArguments(given, "a test") if arguments else None)
    document = documents.from_bytes(json.dumps(config).encode(), "config.json")
    seen = config_of(document, target=Target(), stack=stack, facts=facts)
    found = adapt(seen, "/run", ranks=ranks, mode=CPU, steps=5, is_real_world=True)
    return {one.key: one.after for one in found.adaptations if one.key and ("batch" in one.key or "accum" in one.key)}


FITS = {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 16, "gradient_accumulation_steps": 4}


def test_sizes_that_fit_are_left_alone():
    assert changed(FITS, ranks=4) == {}
    assert changed({"train_micro_batch_size_per_gpu": 32}, ranks=3) == {}


@pytest.mark.parametrize("config", [FITS, FITS | {"zero_optimization": {"stage": 2}}])
def test_sizes_that_do_not_fit_are_made_to(config):
    made = changed(config, ranks=2)
    assert made["train_batch_size"] == 2 * made["train_micro_batch_size_per_gpu"] * made["gradient_accumulation_steps"]


def test_the_trainer_counts_its_own_sizes():
    arguments = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 4}
    auto = dict.fromkeys(FITS, "auto")
    assert changed(auto, ranks=4, stack="trainer", arguments=arguments) == {}
    assert changed(FITS, ranks=4, stack="trainer", arguments=arguments) == {}
    made = changed(FITS, ranks=2, stack="trainer", arguments=arguments)
    assert made["train_batch_size"] == 2 * made["train_micro_batch_size_per_gpu"] * made["gradient_accumulation_steps"]

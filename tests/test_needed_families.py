"""Which families of rules a config needs."""

from __future__ import annotations

import os

import pytest
from linted import config_of

from ds_lint import checks
from ds_lint.diagnostics.rule import RULES
from ds_lint.knowledge.keys import Target
from ds_lint.linter import engine
from ds_lint.source import documents

CHECKS = os.path.dirname(checks.__file__)
NO_FAMILIES = {"__init__", "acceptance"}
ALL_RULES = engine.every_rule()


def rules_of(family):
    return [rule for rule in ALL_RULES if rule.check.__module__ == f"ds_lint.checks.{family}"]


def needed(text, **known):
    config = config_of(documents.from_bytes(text, "a.json"), **known)
    return set(checks.needed(config, {member.key for member in config.root.members}))


def test_every_module_with_rules_is_a_family_once():
    modules = {name.removesuffix(".py") for name in os.listdir(CHECKS) if name.endswith(".py")}
    assert sorted(checks.every_family()) == sorted(modules - NO_FAMILIES)


def test_every_rule_is_in_a_family():
    assert sum(len(rules_of(family)) for family in checks.every_family()) == len(RULES)


@pytest.mark.parametrize("family", checks.FOR_KEYS)
def test_a_family_for_keys_has_rules_for_them_alone(family):
    keys = [rule.keys for rule in rules_of(family)]
    assert all(keys)
    assert frozenset().union(*keys) == checks.FOR_KEYS[family]


@pytest.mark.parametrize("family", checks.FOR_SELECTION)
def test_no_rule_of_a_family_for_selection_is_on(family):
    assert not any(rule.is_on for rule in rules_of(family))


def test_a_clean_file_needs_no_family_for_what_is_not_there():
    found = needed(b'{"train_batch_size": 8, "fp16": {"enabled": true}}')
    assert "loss_scale" in found
    assert found.isdisjoint({"agreement", "hardware", "offload", "policy", "releases", "syntax", "unknown"})


def test_what_is_there_brings_its_family():
    assert "unknown" in needed(b'{"train_batch_sise": 8}')
    assert "syntax" in needed(b'{"train_batch_size": 8,}')
    assert "releases" in needed(b'{"train_batch_size": 8}', before=Target("0.14.5"))

"""``ds-lint explain`` for programs, and of all rules."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft7Validator

from ds_lint.knowledge import resources
from ds_lint.linter.engine import every_rule

with open(resources.path("schemas", "explain.schema.json"), encoding="utf-8") as file:
    SCHEMA = Draft7Validator(json.load(file))


@pytest.fixture
def explained(run):
    """What the command prints as JSON."""

    def explained(*arguments):
        done = run("explain", *arguments, "--output-format", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        SCHEMA.validate(found)
        return found

    return explained


def test_a_rule(explained, run):
    (rule,) = explained("unknown-key")["rules"]
    assert (rule["code"], rule["severity"]) == ("DS101", "error")
    assert rule["page"] == run("explain", "DS101").stdout
    (listed,) = (
        one for one in json.loads(run("rules", "--output-format=json").stdout)["rules"] if one["code"] == "DS101"
    )
    assert {name: rule[name] for name in listed} == listed


def test_a_rule_in_another_language(explained):
    (rule,) = explained("DS101", "--lang", "zh")["rules"]
    assert not rule["page"].isascii()


def test_an_advisory(explained, run):
    (advisory,) = explained("dsa-2026-0001")["advisories"]
    assert advisory["id"] == "DSA-2026-0001"
    assert advisory["page"] == run("explain", "DSA-2026-0001").stdout


def test_a_key(explained):
    (key,) = explained("zero_optimization.stage")["keys"]
    assert key["key"] == "zero_optimization.stage"
    assert {"label": "default", "text": "0"} in key["entry"]


def test_a_text_of_a_log(explained):
    found = explained("exit code -9")["meanings"]
    assert any("out of memory" in f"{one['message']} {one['help']}" or "memory" in one["help"] for one in found)


def test_all_rules(explained, run):
    rules = explained("--all")["rules"]
    assert [rule["code"] for rule in rules] == [rule.code for rule in every_rule()]
    assert run("explain", "--all").stdout == "\n".join(rule["page"] for rule in rules)


@pytest.mark.parametrize("arguments", [[], ["DS101", "--all"]])
def test_one_or_all_and_not_nothing(run, arguments):
    done = run("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "ds-lint: explain needs a rule, an advisory, a key or a text, or --all alone for all rules\n"
    )


def test_what_is_not_known_is_wrong_usage_as_json_too(run):
    done = run("explain", "nonsense", "--output-format", "json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("ds-lint: unknown rule, advisory or key nonsense")

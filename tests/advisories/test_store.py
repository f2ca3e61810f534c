"""The store of advisories is whole: each record says what it needs to say, and its ranges name known releases."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from ds_lint.diagnostics.finding import EFFECTS
from ds_lint.knowledge import tables
from ds_lint.knowledge.advisories import code_of, is_affected, known_releases
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.knowledge.records import AdvisoryRecord
from ds_lint.linter.engine import every_rule
from ds_lint.semantics import advisory_conditions

STORE = tables.load("advisories")
RECORDS = {record["id"]: record for record in STORE["advisories"]}
CLAIMS = Path(__file__).parent / "claims"

each = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)


def test_ids_are_unique_and_in_order():
    ids = [record["id"] for record in STORE["advisories"]]
    assert ids == sorted(set(ids))
    assert all(re.fullmatch(r"DSA-\d{4}-\d{4}", one) for one in ids)


@each
def test_a_record_says_everything(record: AdvisoryRecord):
    optional = {"code", "stacks", "stage"}
    assert set(AdvisoryRecord.__annotations__) - set(record) <= optional
    assert record["effect"] in EFFECTS
    assert ("stage" in record) == (record["effect"] == "rejected")
    assert record["description"].endswith((".", "`"))
    assert not record["summary"].endswith(".")
    assert not re.search(r"\d+\.\d+\.\d+", record["summary"]), "the message has the release beside it"
    assert not record["advice"].endswith(".")
    assert record["advice"][:1] == record["advice"][:1].lower()


@each
def test_ranges_name_known_releases(record: AdvisoryRecord):
    for library, stretches in record["libraries"].items():
        known = known_releases(library)
        assert known, library
        for one in stretches:
            assert one["introduced"] is None or one["introduced"] in known, (library, one)
            assert one["fixed"] is None or one["fixed"] in known, (library, one)
        assert any(is_affected(library, stretches, release) for release in known)


@each
def test_it_is_reported_by_a_rule_that_has_its_effect(record: AdvisoryRecord):
    rules = {rule.code: rule for rule in every_rule()}
    assert record["effect"] in rules[code_of(record)].effects


@each
def test_a_condition_asks_for_what_there_is(record: AdvisoryRecord):
    releases = knowledge().releases
    known = [knowledge(Target(release)) for release in (*releases[::8], releases[-1])]
    for name in _names(ast.parse(record["when"], mode="eval").body):
        if name in advisory_conditions.NAMES or name.startswith("arguments."):
            continue
        path = tuple(name.split("."))
        is_parameter = path[0] in ("optimizer", "scheduler") and path[1:2] == ("params",)
        assert is_parameter or any(one.find(path) is not None for one in known), name


def _names(node: ast.expr):
    """The names and key paths in a condition, and the functions that it calls."""
    if isinstance(node, ast.Call):
        is_own = isinstance(node.func, ast.Name) and node.func.id in advisory_conditions.FUNCTIONS
        assert is_own or ast.unparse(node.func) in ("int", "float", "len", "max", "min", "str"), ast.unparse(node)
        if not is_own:
            for argument in node.args:
                yield from _names(argument)
    elif isinstance(node, (ast.Name, ast.Attribute)):
        yield ast.unparse(node)
    else:
        assert not isinstance(node, ast.Compare) or len(node.ops) == 1, "comparisons are not chained"
        for below in ast.iter_child_nodes(node):
            if isinstance(below, ast.expr):
                yield from _names(below)


@each
def test_a_record_is_proven(record: AdvisoryRecord):
    proof = record["proof"]
    if proof["kind"] == "source":
        assert proof["affected"]
        assert proof["unaffected"]
        return
    assert (CLAIMS / f"{proof['claim']}.py").is_file()
    library = proof.get("library", "deepspeed")
    stretches = record["libraries"][library]
    measured = {release: is_affected(library, stretches, release) for release in proof["measured"]}
    assert True in measured.values(), "no release with the defect was run"
    assert False in measured.values() or stretches[-1]["fixed"] is None, "no release without it was run"

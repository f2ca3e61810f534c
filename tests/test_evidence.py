"""docs/evidence.md: every claim about a run that goes to its end has a test that is about it, and a known measure."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from ds_lint.linter.engine import every_rule
from tools.new_rule import MEASURED

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "evidence.md"
RULES = {rule.code: rule for rule in every_rule()}
CHECKED_BY_EXAMPLES = "test_rule_pages_truth.py"  # runs what the page of every rule shows
REASONED = {"source", "own word"}


class Row(NamedTuple):
    """A claim, and how it is shown; ``check`` is empty in the table of rules."""

    check: str
    rule: str
    effects: str
    claim: str
    measure: str
    what: str
    tests: list[str]


def cells(title: str) -> list[list[str]]:
    """The rows of the table below a heading, without its own two lines."""
    section = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (text,) = [part for part in section if part.startswith(title)] if title else [section[0]]
    lines = [line for line in text.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def rows() -> list[Row]:
    found = []
    for rule, effects, claim, measure, what, tests in cells("Rules"):
        found.append(Row("", rule, effects, claim, measure, what, re.findall(r"`(tests/[^`]*)`", tests)))
    for check, rule, claim, measure, what, tests in cells("Checks"):
        found.append(Row(check.strip("`"), rule, "", claim, measure, what, re.findall(r"`(tests/[^`]*)`", tests)))
    return found


ROWS = rows()
NAMES = [f"{row.rule[1:6]} {row.check}".strip() for row in ROWS]


def code_of(row: Row) -> str:
    matched = re.match(r"\[(DS\d+)\]\(\.\./rules/DS\d+-([a-z0-9-]+)\.md\) ([a-z0-9-]+)$", row.rule)
    assert matched is not None, row.rule
    assert matched[2] == matched[3]
    return matched[1]


@cache
def parts(file: str) -> dict[str, tuple[str, set[str]]]:
    """The text of each function and constant of a module, with decorators, and the names that it uses."""
    text = (ROOT / file).read_text(encoding="utf-8")
    lines = text.splitlines()
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            name, first = node.name, min([node.lineno, *(one.lineno for one in node.decorator_list)])
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            name, first = ast.unparse(target), node.lineno
        else:
            continue
        used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        used |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}  # fixtures
        found[name] = ("\n".join(lines[first - 1 : node.end_lineno]), used)
    return found


def text_of(test: str) -> str:
    """The test, and what of its module it uses."""
    file, _, function = test.partition("::")
    pieces = parts(file)
    own, used = pieces[function]
    return "\n".join([own, *(pieces[name][0] for name in sorted(used) if name in pieces)])


def test_every_claim_has_a_row():
    concerned = {code for code, rule in RULES.items() if MEASURED & set(rule.effects)}
    assert {code_of(row) for row in ROWS} >= concerned


def test_no_rule_has_two_rows_and_no_row_is_about_what_is_not_there():
    of_rules = [code_of(row) for row in ROWS if not row.check]
    assert len(of_rules) == len(set(of_rules))
    for row in ROWS:
        rule = RULES[code_of(row)]
        assert row.rule.endswith(f" {rule.name}")
        if not row.check:
            assert set(row.effects.split(", ")) == MEASURED & set(rule.effects), rule.code


def test_every_check_of_a_run_has_a_row():
    """The checks that docs/smoke.md lists, and the rules about them."""
    listed = re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|.*\[(DS9\d\d)\]", smoke_page(), re.MULTILINE)
    checks = {(check, code) for names, code in listed for check in re.findall(r"`([a-z-]+)`", names)}
    assert {(row.check, code_of(row)) for row in ROWS if row.check} >= checks
    known = (ROOT / "ds_lint" / "checks" / "smoke.py").read_text(encoding="utf-8")
    assert all(f'"{row.check}"' in known for row in ROWS if row.check)


def smoke_page() -> str:
    return (ROOT / "docs" / "smoke.md").read_text(encoding="utf-8")


def test_every_measure_is_explained_and_used():
    assert {row.measure for row in ROWS} == {measure for measure, _ in cells("")}


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_claim_is_shown_by_tests_that_are_about_it(row):
    assert row.claim.endswith(".")
    if row.measure in REASONED:
        assert re.search(r"\bnot (run|independent)\b", row.what), "a reason is missing"
    assert row.tests or row.measure == "source"
    rule = RULES[code_of(row)]
    for test in row.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).is_file(), test
        assert function in parts(file), f"{test} is not there"
        if file.endswith(CHECKED_BY_EXAMPLES):
            page = (ROOT / "rules" / f"{rule.code}-{rule.name}.md").read_text(encoding="utf-8")
            assert "bad stack=deepspeed" in page
        else:
            told = text_of(test)
            assert any(word in told for word in (rule.code, rule.name, f'"{row.check or rule.code}"')), test

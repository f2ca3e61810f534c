"""``python -m tools.new_rule`` starts a rule that the tests refuse until it is written, and take once it is."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ds_lint import checks
from ds_lint.linter.engine import every_rule
from tools import new_rule
from tools.new_rule import NewRule

ROOT = Path(__file__).parent.parent
NEEDED = ("ds_lint", "rules", "schemas", "tools", "pyproject.toml", "CHANGELOG.md", "docs/evidence.md")
TESTS = ("tests/linted.py", "tests/test_rule_pages.py", "tests/test_evidence.py")

WRITTEN = """\
    member = config.member("zero_optimization", "stage")
    if member is not None and member.value.value == 2:
        yield Problem(
            ("zero_optimization", "stage"),
            member.value.span,
            "stage 2 is one more than stage 1",
            Outcome("risk"),
            help="Write 1.",
        )
"""
BAD = '{"train_batch_size": 1, "optimizer": {"type": "Adam"}, "zero_optimization": {"stage": 2}}\n'
FINDINGS = "```findings\n1:87: DS399 [warning] stage 2 is one more than stage 1 (risk)\n"


@pytest.fixture
def checkout(tmp_path):
    """A copy of the checkout with what a new rule touches and what tests it."""
    for name in (*NEEDED, *TESTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def python(checkout, *words):
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=checkout, capture_output=True, text=True, check=False)


def failed(checkout):
    """The tests of the new rule that fail."""
    done = python(
        checkout, "pytest", "--noconftest", "-p", "no:cacheprovider", "-q", "-k", "DS399 or code or measure", *TESTS
    )
    assert done.returncode in (0, 1), done.stdout
    return set(re.findall(r"^FAILED [^:]+::(\w+)", done.stdout, re.MULTILINE))


def rewrite(path, *replacements):
    text = path.read_text(encoding="utf-8")
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def test_a_rule_fails_its_tests_until_it_is_written(checkout):
    done = python(checkout, "tools.new_rule", "DS399", "one-too-many", "--family", "zero", "--effect", "risk")
    assert (done.returncode, done.stderr) == (0, "")
    page, module = checkout / "rules" / "DS399-one-too-many.md", checkout / "ds_lint" / "checks" / "zero.py"
    assert re.findall(r"^wrote (.*)", done.stdout, re.MULTILINE) == [
        "ds_lint/checks/zero.py",
        "rules/DS399-one-too-many.md",
        "docs/evidence.md",
    ]
    assert failed(checkout) >= {
        "test_rule_has_a_page_with_examples",
        "test_page_is_what_the_tool_would_write",
        "test_every_measure_is_explained_and_used",
        "test_a_claim_is_shown_by_tests_that_are_about_it",
    }

    rewrite(module, ('    raise NotImplementedError("DS399 looks at nothing yet")\n', WRITTEN))
    rewrite(module, ("import NO_EFFECT,", "import NO_EFFECT, Outcome,"))
    config = re.search(r"bad stack=deepspeed\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)[1]
    rewrite(page, (f"bad stack=deepspeed\n{config}", f"bad stack=deepspeed\n{BAD}"), ("```findings\n", FINDINGS))
    rewrite(checkout / "docs" / "evidence.md", ("TODO. | TODO | TODO | - |", "Two. | source | not run | - |"))
    assert failed(checkout) == set()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("DS301 another-name --family zero --effect risk", "there is a rule DS301 zero-as-boolean"),
        ("DS399 zero-as-boolean --family zero --effect risk", "there is a rule DS301 zero-as-boolean"),
        ("DS709 another-name --family saving --effect risk", "there was a rule DS709"),
        ("DS399 another-name --family zeros --effect risk", "there is no family 'zeros'"),
        ("DS399 another-name --family batch --effect risk", "the codes of the family batch are DS5xx"),
        ("DS999 another-name --family smoke --effect risk", "docs/dev/training-runs.md"),
        ("DS3990 another-name --family zero --effect risk", "DS and three digits"),
        ("DS399 Another_name --family zero --effect risk", "words in lower case"),
        ("DS399 is-on --family zero --effect risk", "ds_lint/checks/zero.py already defines is_on"),
        ("DS399 another-name --family zero --effect strange", "invalid choice: 'strange'"),
    ],
)
def test_what_cannot_be_is_refused(capsys, monkeypatch, words, why):
    monkeypatch.setattr(new_rule, "_write", None)
    with pytest.raises(SystemExit) as end:
        new_rule.main(words.split())
    assert end.value.code == 2
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("family", sorted(set(checks.every_family()) - {"smoke"}))
def test_the_function_stands_behind_the_last_rule_of_its_family(family):
    new = NewRule("DS399", "some-name", family, "error", ("rejected", "no-effect"), ("zero_optimization", "optimizer"))
    text = (ROOT / new.module).read_text(encoding="utf-8")
    functions = [
        node for node in ast.parse(new_rule.with_function(text, new)).body if isinstance(node, ast.FunctionDef)
    ]
    *others, last = [
        node for node in functions if node.decorator_list and "rule(" in ast.unparse(node.decorator_list[0])
    ]
    assert last.name == "some_name"
    assert len(others) == len([one for one in every_rule() if one.check.__module__ == f"ds_lint.checks.{family}"])
    registered = ast.unparse(last.decorator_list[0])
    assert registered.startswith(
        "rule('DS399', 'some-name', severity='error', effects=('rejected', 'no-effect'), keys="
    )
    assert ("default=False" in registered) == (family in checks.FOR_SELECTION)


def test_rows_of_evidence_stand_in_the_order_of_codes():
    text = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
    for code in ("DS000", "DS399", "DS899"):
        added = new_rule.with_row(text, NewRule(code, "some-name", "zero", "warning", ("risk",), ()))
        codes = re.findall(r"^\| \[(DS\d+)\]", added.partition("## Checks")[0], re.MULTILINE)
        assert code in codes
        assert codes == sorted(codes)


def test_nothing_that_a_rule_starts_with_is_left():
    unwritten = [
        *(ROOT / "rules").rglob("*.md"),
        ROOT / "docs" / "evidence.md",
        *(ROOT / "ds_lint").rglob("checks/*.py"),
    ]
    assert [path.name for path in unwritten if "TODO" in path.read_text("utf-8")] == []


def test_advice_is_for_those_who_select_it():
    new = new_rule.parsed(["DS399", "some-name", "--family", "zero", "--effect", "advice"])
    assert new.severity == "info"
    assert "default=False" in new_rule.with_function((ROOT / "ds_lint" / "checks" / "zero.py").read_text("utf-8"), new)

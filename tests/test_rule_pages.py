"""The rule pages are the rules' documentation and their tests: every example is linted, every page has one shape."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ds_lint import checks
from ds_lint.fixes.application import ALL, SAFE
from ds_lint.knowledge import resources
from ds_lint.linter import engine  # noqa: F401 - the engine registers the rules
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from ds_lint.source.documents import again
from tools.rule_pages import corrected, lines, lint_example
from tools.rule_ranges import RANGES, digit_of

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.rule_pages.pages import Example

PAGES = sorted(Path(resources.path("rules")).glob("*.md"))
HEADINGS = ["What it catches", "Why it matters", "What each stack does", "Examples", "How to fix", "Evidence"]
FLAGS = {"safe": "--fix", "unsafe": "--unsafe-fixes"}


def text_of(rule: Rule) -> str:
    """The page of a rule; empty where there is none, which a test of its own reports."""
    return pages.page(rule) if Path(pages.path(rule)).exists() else ""


def collect(kind: str) -> list[object]:
    """The examples of a kind on all pages, each with the rule of its page."""
    return [
        pytest.param(
            rule, example, id=f"{rule.code}:{example.line}", marks=[pytest.mark.fidelity] if example.is_run else []
        )
        for rule in every_rule()
        for example in pages.examples(text_of(rule))
        if example.kind == kind
    ]


def own(rule: Rule, report: FileReport) -> list[Finding]:
    return [finding for finding in report.findings if finding.code == rule.code]


RUN = "DS9"  # the codes of rules about training runs
each_rule = pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, id=rule.code, marks=[pytest.mark.fidelity] if rule.code.startswith(RUN) else [])
        for rule in every_rule()
    ],
)


# --------------------------------------------------------------------------------------------------------- examples


@pytest.mark.parametrize(("rule", "example"), collect("bad"))
def test_bad_example_has_exactly_the_findings_of_its_page(rule: Rule, example: Example) -> None:
    report = lint_example(example, rule)
    assert lines(report) == example.findings, "python -m tools.rule_pages --write corrects the page"
    assert own(rule, report), f"nothing here is a finding of {rule.code}"


@pytest.mark.parametrize(("rule", "example"), collect("good"))
def test_good_example_is_clean(rule: Rule, example: Example) -> None:
    report = lint_example(example, rule)
    assert not own(rule, report)
    assert [finding.message for finding in report.findings if finding.severity != "info"] == []


@pytest.mark.parametrize(("rule", "example"), collect("bad"))
def test_fix_removes_its_finding(rule: Rule, example: Example) -> None:
    report = lint_example(example, rule)
    for finding in report.findings:
        if finding.fix is not None:
            document = again(report.document, applied(finding, report.document.text))
            assert document is not None
            fixed = lint_example(example, rule, document=document)
            assert identity(finding) not in [identity(one) for one in fixed.findings]


@each_rule
def test_page_names_and_shows_the_fixes_that_its_examples_have(rule: Rule) -> None:
    bad = [example for example in pages.examples(text_of(rule)) if example.kind == "bad"]
    fixes = [finding.fix for example in bad for finding in own(rule, lint_example(example, rule)) if finding.fix]
    named = set(re.findall(r"`(--fix|--unsafe-fixes)`", text_of(rule).partition("## How to fix")[2]))
    assert {FLAGS[fix.safety] for fix in fixes} <= named
    assert bool(fixes) == bool(named) == any(example.fixed for example in bad)


def identity(finding: Finding) -> tuple[str, str | None, str]:
    """A finding without its place, which moves when the text is edited."""
    return finding.code, finding.key, finding.message


def applied(finding: Finding, text: str) -> str:
    assert finding.fix is not None
    for edit in sorted(finding.fix.edits, key=lambda edit: edit.span.start, reverse=True):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


# ----------------------------------------------------------------------------------------------- pages and registry


@each_rule
def test_rule_has_a_page_with_examples(rule: Rule) -> None:
    examples = pages.examples(pages.page(rule))
    assert any(example.kind == "bad" and own(rule, lint_example(example, rule)) for example in examples)
    assert any(example.kind == "good" for example in examples)


def test_page_has_a_rule() -> None:
    assert {path.stem for path in PAGES} <= {f"{rule.code}-{rule.name}" for rule in every_rule()}


@each_rule
def test_page_has_the_shape_of_all(rule: Rule) -> None:
    text = pages.page(rule)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    assert text.startswith(f"# {rule.code}: {rule.name}\n")
    assert re.findall(r"^#+ (.*)", prose, flags=re.MULTILINE)[1:] == HEADINGS
    assert all(section.partition("\n")[2].strip() for section in text.split("\n## ")), "a heading with nothing under it"


@each_rule
def test_page_is_what_the_tool_would_write(rule: Rule) -> None:
    """The findings, and the severities and effects of the table, are those that the examples show."""
    assert corrected(pages.page(rule), rule) == pages.page(rule)


MOST = 120  # characters of a message, without the names in backticks; reasons and ways out are help
LONGER = {
    "DS353": "lists the keys of the config that are ignored",
    "DS620": "quotes the library",
    "DS830": "lists the variables that are missing",
    "DS846": "names a function of torch with its module",
    "DS914": "quotes the library",
}


def messages_of(rule: Rule) -> list[str]:
    """The messages in the findings of the examples of a page, without the names that they quote."""
    findings = re.findall(rf": {rule.code} \[\w+\] (.*) \([^()]*\)$", text_of(rule), flags=re.MULTILINE)
    return [re.sub(r"`[^`]*`", "", message) for message in findings]


def test_messages_are_short() -> None:
    longest = {rule.code: max(map(len, messages_of(rule)), default=0) for rule in every_rule()}
    assert {code: length for code, length in longest.items() if length > MOST and code not in LONGER} == {}
    assert [code for code in LONGER if longest[code] <= MOST] == []  # an exception that nothing needs any more


@each_rule
def test_summary_is_one_sentence(rule: Rule) -> None:
    summary = pages.summary(rule)
    assert summary.endswith(".")
    assert ". " not in summary
    assert len(summary) <= 130


@each_rule
def test_examples_show_every_declared_effect_and_no_other(rule: Rule) -> None:
    bad = [example for example in pages.examples(pages.page(rule)) if example.kind == "bad"]
    shown = {finding.effect for example in bad for finding in own(rule, lint_example(example, rule))}
    assert shown == set(rule.effects)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_internal_links_resolve(path: Path) -> None:
    targets = re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (path.parent / target).exists()] == []


def test_codes_and_names_are_unique() -> None:
    assert len({rule.code for rule in every_rule()}) == len({rule.name for rule in every_rule()}) == len(every_rule())


@each_rule
def test_code_and_name_are_well_formed(rule: Rule) -> None:
    assert re.fullmatch(r"DS[0-9]{3}", rule.code)
    assert rule.family in RANGES[digit_of(rule)].families
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)


def test_every_family_has_codes_where_the_table_says() -> None:
    stated = {(digit, family) for digit, about in RANGES.items() for family in about.families}
    assert {family for _, family in stated} == set(checks.every_family())
    assert stated == {(digit_of(rule), rule.family) for rule in every_rule()}


# ------------------------------------------------------------------------------------------------------- the parser


def page_with(block: str) -> str:
    return f"# DS000: some-rule\n\nCatches something.\n\n{block}"


def test_example_carries_its_options_and_its_place() -> None:
    text = page_with("```json bad stack=trainer world-size=4\n{\n}\n```\n\n```findings\n1:1: one\n2:1: two\n```\n")
    (example,) = pages.examples(text)
    assert (example.kind, example.language, example.stack, example.facts.world_size) == ("bad", "json", "trainer", 4)
    assert example.config == "{\n}\n"
    assert text.splitlines()[example.line - 1] == "{"
    assert example.findings == ["1:1: one", "2:1: two"]
    assert text[example.findings_span.start : example.findings_span.end] == "1:1: one\n2:1: two\n"


def test_fixed_config_belongs_to_the_example_before_it() -> None:
    bad = "```json bad\n{}\n```\n\n```findings\n1:1: one\n```\n"
    (safe,) = pages.examples(page_with(f"{bad}\n```json fixed\n[]\n```\n"))
    assert safe.fixed is not None
    assert (safe.fixed.text, safe.fixed.safeties) == ("[]\n", SAFE)
    (unsafe,) = pages.examples(page_with(f"{bad}\n```json fixed unsafe\n[]\n```\n"))
    assert unsafe.fixed is not None
    assert unsafe.fixed.safeties == ALL


def test_ellipsis_and_encoding_stand_for_what_a_page_cannot_hold() -> None:
    (nested,) = pages.examples(page_with("```json good ellipsis=3\n[...]...\n```\n"))
    assert nested.config == "[[[]]]\n"
    (latin,) = pages.examples(page_with("```json good encoding=latin-1\nü\n```\n"))
    assert latin.data == b"\xfc\n"


def test_other_blocks_are_prose() -> None:
    assert pages.examples(page_with("```json\n{}\n```\n\n```\nplain\n```\n")) == []


@pytest.mark.parametrize(
    "block",
    [
        "```findings\n```\n",
        "```json bad\n{}\n```\n",
        "```json bad\n{}\n```\n\n```json good\n{}\n```\n",
        "```json good colour=red\n{}\n```\n",
        "```json good stack=megatron\n{}\n```\n",
        "```json good\n{}\n",
        "```json good\n{}\n```\n\n```json fixed\n{}\n```\n",
        "```json bad\n{}\n```\n\n```json fixed\n{}\n```\n",
    ],
)
def test_malformed_page_is_refused(block: str) -> None:
    with pytest.raises(pages.PageError, match="line"):
        pages.examples(page_with(block))


def test_first_paragraph_is_joined() -> None:
    assert pages.first_paragraph("# DS000: x\n\nOne\nsentence.\n\nAnother.\n") == "One sentence."


def test_a_page_without_a_finding_of_its_rule_is_refused():
    rule = next(one for one in every_rule() if one.code == "DS840")
    text = pages.page(rule).replace(" bad ", " good ")
    without = re.sub(r"^```findings\n.*?^```\n", "", text, flags=re.MULTILINE | re.DOTALL)
    with pytest.raises(pages.PageError, match="no example has a finding"):
        corrected(re.sub(r"^```json good.*?^```\n", "", without, flags=re.MULTILINE | re.DOTALL), rule)

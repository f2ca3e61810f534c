"""The report as JUnit writes tests; tests/clients/test_reports.py holds it against the schema of Jenkins."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from ds_lint.diagnostics.report import Complaint
from ds_lint.diagnostics.verdict import CPU, Check, Verdict
from ds_lint.output.junit import render
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span


@pytest.fixture
def suites(report):
    """The suites of a report on some files."""

    def suites(*files, **changes):
        text = render(report(*files, **changes), Terminal())
        assert text.isascii()
        return list(ET.fromstring(text))  # noqa: S314 - our own

    return suites


def numbers(suite):
    return {name: suite.get(name) for name in ("tests", "failures", "errors")}


def test_a_file_is_a_suite_and_a_finding_a_failed_test(suites, file, finding):
    (suite,) = suites(file('{"a": 1}', finding(Span(1, 4), help="Delete it."), path="conf/zero.3.json"))
    assert (suite.get("name"), numbers(suite)) == ("conf/zero.3.json", {"tests": "1", "failures": "1", "errors": "0"})
    (case,) = suite
    assert case.get("classname") == "conf/zero.3"
    assert case.get("name") == "DS101 unknown-key: gradient_cliping"
    (failure,) = case
    assert (failure.tag, failure.get("type")) == ("failure", "error")
    assert failure.get("message") == "DeepSpeed knows no such key"
    assert '1 | {"a": 1}\n  |  ^^^' in failure.text
    assert failure.text.endswith("= help: Delete it.")


def test_a_clean_file_is_a_test_that_passed(suites, file):
    (suite,) = suites(file("{}"))
    assert numbers(suite) == {"tests": "1", "failures": "0", "errors": "0"}
    (case,) = suite
    assert (case.get("name"), list(case)) == ("no findings", [])


@pytest.mark.parametrize(
    ("fail_on", "failed"),
    [("error", ["error"]), ("warning", ["error", "warning"]), ("info", ["error", "warning", "info"])],
)
def test_a_finding_that_does_not_count_passes_with_its_text(suites, file, finding, fail_on, failed):
    linted = file("{}", *(finding(Span(0, 1), severity=severity) for severity in ("error", "warning", "info")))
    linted.fail_on = fail_on
    (suite,) = suites(linted)
    assert numbers(suite)["failures"] == str(len(failed))
    assert [case[0].get("type") for case in suite if case[0].tag == "failure"] == failed
    assert all("DeepSpeed knows no such key" in case[0].text for case in suite)


def test_equal_findings_are_told_apart_without_their_lines(suites, file, finding):
    (suite,) = suites(file("{}", finding(Span(0, 1), key=None), finding(Span(1, 2), key=None)))
    assert [case.get("name") for case in suite] == ["DS101 unknown-key", "DS101 unknown-key (2)"]


def test_what_could_not_be_read_is_an_error(suites, file):
    _, suite = suites(file("{}"), unreadable=[Complaint("a.json", "Permission denied")])
    assert (suite.get("name"), numbers(suite)) == ("ds-lint", {"tests": "1", "failures": "0", "errors": "1"})
    assert suite[0][0].tag == "error"
    assert suite[0][0].get("message") == "a.json: Permission denied"


def test_no_file_is_an_empty_suite(suites):
    (suite,) = suites()
    assert numbers(suite)["tests"] == "0"


def test_what_xml_cannot_hold(suites, file, finding):
    text = '{"\x00\x1b\ud800\ufffe</failure>]]>&amp;梯度": "\t\x7f"}'
    (suite,) = suites(file(text, finding(Span(1, len(text)), message=text, label=text), path=f"{text[:9]}.json"))
    failure = suite[0][0]
    assert failure.get("message") == '{"<U+0000><U+001B><U+D800><U+FFFE></failure>]]>&amp;梯度": "<U+0009><U+007F>"}'
    assert "</failure>]]>&amp;梯度" in failure.text


@pytest.mark.parametrize(
    ("status", "tag"), [("pass", "system-out"), ("warn", "system-out"), ("fail", "failure"), ("error", "error")]
)
def test_a_training_run_is_a_test(suites, file, status, tag):
    check = Check("stage", status, None, 3, 3, None, "stage is 3")
    linted = file("{}")
    linted.smoke = [Verdict("config.json", "trainer", CPU, 2, status, [], [check], [], seconds=1.5, error="no torch")]
    (suite,) = suites(linted)
    assert (suite.get("tests"), suite.get("time")) == ("2", "1.500")
    run = suite[1]
    assert (run.get("name"), run[0].tag) == ("training run, trainer stack, 2 CPU ranks", tag)
    assert "smoke" in run[0].text

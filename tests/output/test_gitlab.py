"""The report as GitLab reads it; tests/clients/test_reports.py holds it against sarif-tools."""

from __future__ import annotations

import json

import pytest

from ds_lint.output.gitlab import render
from ds_lint.output.terminal import Terminal
from ds_lint.source.tree import Span


@pytest.fixture
def issues(report, file):
    """The issues for findings in one file."""

    def issues(*findings, text="{\n\n}", path="config.json"):
        return json.loads(render(report(file(text, *findings, path=path)), Terminal()))

    return issues


def test_a_finding(issues, finding, tmp_path, monkeypatch):
    (tmp_path / "train").mkdir()
    monkeypatch.chdir(tmp_path / "train")
    monkeypatch.setenv("CI_PROJECT_DIR", str(tmp_path))
    (issue,) = issues(finding(Span(0, 2), help="Write it right.", message="a\x1bb"))
    fingerprint = issue.pop("fingerprint")
    assert len(fingerprint) == 32
    assert issue == {
        "type": "issue",
        "check_name": "DS101",
        "description": "a<U+001B>b. Write it right.",
        "categories": ["Bug Risk"],
        "severity": "major",
        "location": {"path": "train/config.json", "lines": {"begin": 1, "end": 2}},
    }


def test_fingerprints_are_unique_and_outlive_lines_above(issues, finding):
    first, second = issues(finding(Span(0, 1)), finding(Span(1, 2)))
    assert first["fingerprint"] != second["fingerprint"]
    (moved,) = issues(finding(Span(6, 7)), text="\n" * 6 + "{")
    assert moved["fingerprint"] == first["fingerprint"]


@pytest.mark.parametrize(("severity", "theirs"), [("error", "major"), ("warning", "minor"), ("info", "info")])
def test_severities(issues, finding, severity, theirs):
    assert issues(finding(Span(0, 1), severity=severity))[0]["severity"] == theirs


def test_no_findings_are_no_issues(issues):
    assert issues() == []

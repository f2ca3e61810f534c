"""Logging commands for Azure Pipelines."""

from __future__ import annotations

import os

import pytest

from ds_lint.diagnostics.report import Complaint
from ds_lint.output.azure import command, render
from ds_lint.output.terminal import Terminal

CONFIG = '{\n  "gradient_cliping": 1\n}\n'


@pytest.fixture
def lines(report, file, finding, span, tmp_path, monkeypatch):
    """The lines for one finding in a folder of the test's own."""
    monkeypatch.chdir(tmp_path)

    def lines(path="config.json", **changes):
        found = finding(span(CONFIG, '"gradient_cliping"'), **changes)
        return render(report(file(CONFIG, found, path=path)), Terminal()).splitlines()

    return lines


def test_a_finding_is_an_issue_and_the_summary_follows(lines, tmp_path):
    issue, *log = lines(help="Write it right.")
    assert issue == (
        f"##vso[task.logissue type=error;sourcepath={tmp_path}{os.sep}config.json;linenumber=2;columnnumber=3;"
        "code=DS101;]DeepSpeed knows no such key. Write it right."
    )
    assert log[0] == "1 error in config.json"


def test_an_info_is_a_line_because_azure_knows_errors_and_warnings_only(lines):
    assert lines(severity="warning")[0].startswith("##vso[task.logissue type=warning;")
    assert lines(severity="info")[0] == "config.json:2:3: DS101 [info] DeepSpeed knows no such key (ignored)"


def test_what_would_end_a_command_is_escaped():
    """As ``TaskCommand.toString`` of azure-pipelines-task-lib does it."""
    assert command("100%\r\na]b;c", {"type": "error", "sourcepath": "a];\n%.json", "code": ""}) == (
        "##vso[task.logissue type=error;sourcepath=a%5D%3B%0A%AZP25.json;]100%AZP25%0D%0Aa]b;c"
    )


def test_what_is_quoted_is_no_command(lines):
    issue, *log = lines(path="##vso[x]a.json", message="`##vso[task.complete result=Succeeded]` is unknown")
    assert issue.count("##vso[") == 1
    assert "##vso[" not in "".join(log)


def test_what_could_not_be_read_is_an_error(report, file):
    first, *_ = render(report(file("{}"), unreadable=[Complaint(None, "gone")]), Terminal()).splitlines()
    assert first == "##vso[task.logissue type=error;]gone"

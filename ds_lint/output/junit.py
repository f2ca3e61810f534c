"""The report as JUnit writes tests, which Jenkins, Azure DevOps, GitLab and many others show.

A file is a suite, and each of its findings a test: failed where the finding counts for the exit status, else passed
with the finding as its output. A clean file is a test that passed. The text is ASCII, the rest references.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from ds_lint.output import smoke
from ds_lint.output.project_root import project_root
from ds_lint.output.story import story
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.diagnostics.verdict import Verdict

PASSED = "system-out"  # the element for what a test printed


class Case(NamedTuple):
    """One test: ``outcome`` is the element for how it ended, ``failure``, ``error`` or PASSED."""

    name: str
    outcome: str = PASSED
    type: str = ""
    message: str = ""
    text: str = ""
    seconds: float = 0.0


def render(report: Report, _terminal: Terminal) -> str:
    """A suite for each file, and one for what could not be read."""
    root = project_root()
    suites = [_suite(root.shown(file.path), list(_cases(report, file))) for file in report.files]
    if report.unreadable or not report.files:
        unreadable = [Case(complaint, "error", "unreadable", complaint) for complaint in map(str, report.unreadable)]
        suites.append(_suite("ds-lint", unreadable))
    text = "\n".join(['<?xml version="1.0" encoding="utf-8"?>', "<testsuites>", *suites, "</testsuites>"])
    return text.encode("ascii", "xmlcharrefreplace").decode() + "\n"


def _cases(report: Report, file: FileReport) -> Iterator[Case]:
    """The tests of a file; those of the same name are numbered, so that a later report can be held against this one."""
    seen: dict[str, int] = {}
    for finding in file.findings:
        name = f"{finding.code} {finding.name}" + (f": {finding.key}" if finding.key else "")
        seen[name] = seen.get(name, 0) + 1
        number = f" ({seen[name]})" if seen[name] > 1 else ""
        yield _of_finding(report, file, finding, name + number)
    if not file.findings:
        yield Case("no findings")
    for verdict in file.smoke or ():
        yield _of_run(verdict)


def _of_finding(report: Report, file: FileReport, finding: Finding, name: str) -> Case:
    text = "\n".join(story(report, file, finding, Terminal()))
    if not file.counts(finding):
        return Case(name, text=text)
    return Case(name, "failure", finding.severity, finding.message, text)


def _of_run(verdict: Verdict) -> Case:
    name = f"training run, {verdict.stack} stack, {smoke.ranks(verdict)}"
    text = "\n".join(smoke.records([verdict], Terminal()))
    outcome = {"error": "error", "fail": "failure"}.get(verdict.status, PASSED)
    return Case(name, outcome, "smoke", smoke.headline(verdict), text, verdict.seconds)


def _suite(name: str, cases: list[Case]) -> str:
    numbers = {
        "tests": len(cases),
        "failures": sum(case.outcome == "failure" for case in cases),
        "errors": sum(case.outcome == "error" for case in cases),
    }
    counted = "".join(f' {kind}="{number}"' for kind, number in numbers.items())
    seconds = sum(case.seconds for case in cases)
    class_name, _ = os.path.splitext(name)  # what follows a dot is the class to Jenkins, what is before it the package
    rows = [f'  <testsuite name="{_escaped(name)}"{counted} time="{seconds:.3f}">']
    for case in cases:
        rows += _rows(case, class_name)
    return "\n".join([*rows, "  </testsuite>"])


def _rows(case: Case, class_name: str) -> list[str]:
    start = f'    <testcase classname="{_escaped(class_name)}" name="{_escaped(case.name)}" time="{case.seconds:.3f}"'
    if case.outcome == PASSED and not case.text:
        return [f"{start}/>"]
    attributes = "" if case.outcome == PASSED else f' type="{_escaped(case.type)}" message="{_escaped(case.message)}"'
    text = "\n".join(map(_escaped, case.text.split("\n")))
    return [f"{start}>", f"      <{case.outcome}{attributes}>{text}</{case.outcome}>", "    </testcase>"]


def _escaped(text: str) -> str:
    """One line of text or an attribute; what XML cannot hold is written as ``<U+0000>``."""
    text = visible(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;")

"""Workflow commands for GitHub Actions, which shows them beside the code of a pull request, and in the log as lines.

Escaping is that of ``issueCommand`` in https://github.com/actions/toolkit (``packages/core/src/command.ts``).
"""

from __future__ import annotations

from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.output.concise import record
from ds_lint.output.harmless import harmless
from ds_lint.output.project_root import project_root
from ds_lint.output.summary import summary
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import Complaint, FileReport, Report
    from ds_lint.output.project_root import Root

COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
SHOWN_OF_A_STEP = 10  # annotations of one kind; the others are in the log only

_OF_MESSAGES = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES = _OF_MESSAGES | str.maketrans({":": "%3A", ",": "%2C"})


def render(report: Report, terminal: Terminal) -> str:
    """A command for each finding, then the training runs and the summary for who reads the log."""
    root = project_root()
    lines = [_complaint(root, complaint) for complaint in report.unreadable]
    lines += [_annotation(root, file, finding) for file in report.files for finding in file.findings]
    closing = [] if report.is_quiet else _not_shown(report.findings)
    if runs := report.smoke:
        from ds_lint.output import smoke  # a check without runs does not pay for them

        closing += smoke.records(runs, terminal)
    closing += summary(report, terminal)
    return "\n".join([*lines, harmless("\n".join(closing))]) + "\n"


def command(name: str, message: str, properties: dict[str, str]) -> str:
    """One line that the runner understands; a property that is empty is not there."""
    given = ",".join(f"{key}={value.translate(_OF_PROPERTIES)}" for key, value in properties.items() if value)
    return f"::{name} {given}::{message.translate(_OF_MESSAGES)}"


def _complaint(root: Root, complaint: Complaint) -> str:
    """Why the status is 2, beside the file that it is about."""
    file = "" if complaint.path is None else root.shown(complaint.path)
    return command("error", visible(str(complaint)), {"title": "ds-lint", "file": file})


def _annotation(root: Root, file: FileReport, finding: Finding) -> str:
    """A finding; the message names the place again, because the log does not show the properties."""
    place = file.place(finding)
    (line, column), (last_line, last_column) = file.shown_document(finding).ends_in_file(place.span)
    properties = {
        "title": f"{finding.code} {finding.name}",
        "file": visible(root.shown(place.path or file.path)),
        "line": str(line),
        "endLine": str(last_line),
    }
    if line == last_line:  # GitHub takes columns of one line only
        properties |= {"col": str(column), "endColumn": str(last_column)}
    message = record(file, finding, Terminal())
    if finding.help:
        message += "".join(f"\n{visible(row)}" for row in finding.help.split("\n"))
    return command(COMMANDS[finding.severity], message, properties)


def _not_shown(findings: list[Finding]) -> list[str]:
    """A note about the findings that GitHub shows only in the log; empty if it annotates all."""
    numbers = (sum(finding.severity == severity for finding in findings) for severity in SEVERITIES)
    if max(numbers) <= SHOWN_OF_A_STEP:
        return []
    return [f"note: GitHub annotates only the first {SHOWN_OF_A_STEP} findings of each kind; the log has all"]

"""Logging commands for Azure Pipelines, which shows them above the log of a run.

Escaping is that of ``TaskCommand`` in https://github.com/microsoft/azure-pipelines-task-lib (``node/taskcommand.ts``).
"""

from __future__ import annotations

from ds_lint.output.concise import record
from ds_lint.output.harmless import harmless
from ds_lint.output.project_root import project_root
from ds_lint.output.sentences import description
from ds_lint.output.summary import summary
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import Complaint, FileReport, Report
    from ds_lint.output.project_root import Root

KINDS = ("error", "warning")  # Azure has no other

_OF_MESSAGES = str.maketrans({"%": "%AZP25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES = _OF_MESSAGES | str.maketrans({"]": "%5D", ";": "%3B"})


def render(report: Report, terminal: Terminal) -> str:
    """A command for each error and warning, then what Azure has no kind for, the training runs and the summary."""
    root = project_root()
    lines = [_complaint(root, complaint) for complaint in report.unreadable]
    closing: list[str] = []
    for file in report.files:
        for finding in file.findings:
            if finding.severity in KINDS:
                lines.append(_issue(root, file, finding))
            else:
                closing.append(record(file, finding, Terminal()))
    if runs := report.smoke:
        from ds_lint.output import smoke  # a check without runs does not pay for them

        closing += smoke.records(runs, terminal)
    closing += summary(report, terminal)
    return "\n".join([*lines, harmless("\n".join(closing))]) + "\n"


def command(message: str, properties: dict[str, str]) -> str:
    """One line that the agent understands; a property that is empty is not there."""
    given = "".join(f"{key}={value.translate(_OF_PROPERTIES)};" for key, value in properties.items() if value)
    return f"##vso[task.logissue {harmless(given)}]{harmless(message).translate(_OF_MESSAGES)}"


def _complaint(root: Root, complaint: Complaint) -> str:
    """Why the status is 2, with the file that it is about."""
    file = "" if complaint.path is None else visible(root.absolute(complaint.path))
    return command(visible(str(complaint)), {"type": "error", "sourcepath": file})


def _issue(root: Root, file: FileReport, finding: Finding) -> str:
    """A finding; its path is absolute, which the agent finds wherever it runs."""
    place = file.place(finding)
    (line, column), _ = file.shown_document(finding).ends_in_file(place.span)
    properties = {
        "type": finding.severity,
        "sourcepath": visible(root.absolute(place.path or file.path)),
        "linenumber": str(line),
        "columnnumber": str(column),
        "code": finding.code,
    }
    return command(visible(description(finding)), properties)

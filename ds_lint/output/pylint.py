"""Lines as ``pylint --output-format parseable`` prints them, for programs: ``path:line: [DS101] message``."""

from __future__ import annotations

from ds_lint.output.project_root import project_root
from ds_lint.output.sentences import description
from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.project_root import Root
    from ds_lint.output.terminal import Terminal


def render(report: Report, _terminal: Terminal) -> str:
    """A line for each finding and no other, because every line is read as one."""
    root = project_root()
    return "".join(f"{_line(root, file, finding)}\n" for file in report.files for finding in file.findings)


def _line(root: Root, file: FileReport, finding: Finding) -> str:
    place = file.place(finding)
    (line, _), _ = file.shown_document(finding).ends_in_file(place.span)
    path = visible(root.shown(place.path or file.path))
    return f"{path}:{line}: [{finding.code}] {visible(description(finding))}"

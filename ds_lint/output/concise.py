"""One line a finding, for searching and for editors that jump to ``path:line:column``."""

from __future__ import annotations

from ds_lint.diagnostics.report import page_url
from ds_lint.output.sentences import doubt, outcome
from ds_lint.output.summary import summary
from ds_lint.output.terminal import SEVERITY, STRONG
from ds_lint.output.text import shown_path, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.terminal import Terminal


def render(report: Report, terminal: Terminal) -> str:
    """The findings and training runs of all files, never wrapped because a line is a record; then the summary."""
    lines = [record(file, finding, terminal) for file in report.files for finding in file.findings]
    if runs := report.smoke:
        from ds_lint.output import smoke  # a check without runs does not pay for them

        lines += smoke.records(runs, terminal)
    return "\n".join([*lines, *summary(report, terminal)]) + "\n"


def record(file: FileReport, finding: Finding, terminal: Terminal) -> str:
    """A finding in one line."""
    shown = file.place(finding)
    path = terminal.paint(shown_path(shown.path or file.path), STRONG)
    place = file.shown_document(finding).shown_place(shown.span.start)
    return f"{path}:{place}: {statement(finding, terminal)}"


def statement(finding: Finding, terminal: Terminal) -> str:
    """What of it is not its place: the code, the message, the effect, the releases and what is unknown."""
    code = terminal.link(finding.code, page_url(finding))
    code = terminal.paint(f"{code} [{finding.severity}]", SEVERITY[finding.severity])
    releases = f"; {finding.affected_releases}" if finding.releases else ""
    doubted = f"; {doubt(finding)}" if finding.doubts else ""
    seen = "; a run confirms it" if finding.confirmed else ""
    return f"{code} {visible(finding.message)} ({outcome(finding)}{releases}{visible(doubted)}{seen})"

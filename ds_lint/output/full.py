"""Findings for people: what is wrong, where, what happens with it, and the way out."""

from __future__ import annotations

from ds_lint.output.summary import summary
from ds_lint.output.text import plural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.report import Report
    from ds_lint.output.terminal import Terminal


def render(report: Report, terminal: Terminal) -> str:
    """Every finding with its frame and every training run, a blank line after each, then the summary."""
    lines: list[str] = []
    if report.findings:
        from ds_lint.output.story import story  # a clean file does not pay for frames

        printed: dict[tuple[str, str], int] = {}  # by rule and severity: warnings must not hide an error
        for file in report.files:
            for finding in file.findings:
                kind = finding.code, finding.severity
                printed[kind] = printed.get(kind, 0) + 1
                if not report.limit or printed[kind] <= report.limit:
                    lines += [*story(report, file, finding, terminal), ""]
        if report.limit:
            lines += _left_out(printed, report.limit)
    if runs := report.smoke:
        from ds_lint.output import smoke  # nor for runs that were not requested

        helped = {
            one for finding in report.findings if finding.help for one in (finding.subject, *finding.confirmed_by)
        }
        lines += [*smoke.lines(runs, terminal, helped), ""]
    return "\n".join([*lines, *summary(report, terminal)]) + "\n"


def _left_out(findings: dict[tuple[str, str], int], limit: int) -> list[str]:
    """A line for each rule and severity that has more findings than are printed, and a blank line."""
    lines = []
    for (code, severity), number in sorted(findings.items()):
        if number > limit:
            more, noun = number - limit, plural(number - limit, severity)
            lines.append(f"... and {more} more {code} {noun} ({limit} of {number} printed; --limit 0 prints all)")
    return [*lines, ""] if lines else []

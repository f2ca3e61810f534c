"""Findings below the path of their file, one line each: to read what is wrong with each of many files."""

from __future__ import annotations

from ds_lint.output.concise import statement
from ds_lint.output.summary import summary
from ds_lint.output.terminal import STRONG
from ds_lint.output.text import shown_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.report import Report
    from ds_lint.output.terminal import Terminal


def render(report: Report, terminal: Terminal) -> str:
    """A block for each file with findings, whose places are aligned; then the training runs and the summary."""
    blocks: dict[str, list[tuple[str, str]]] = {}
    for file in report.files:
        for finding in file.findings:
            shown = file.place(finding)
            place = file.shown_document(finding).shown_place(shown.span.start)
            blocks.setdefault(shown.path or file.path, []).append((place, statement(finding, terminal)))
    lines: list[str] = []
    for path, rows in blocks.items():
        width = max(len(place) for place, _ in rows)
        lines.append(f"{terminal.paint(shown_path(path), STRONG)}:")
        lines += [f"  {place.ljust(width)} {text}" for place, text in rows]
        lines.append("")
    if runs := report.smoke:
        from ds_lint.output import smoke  # a check without runs does not pay for them

        lines += smoke.records(runs, terminal)
    return "\n".join([*lines, *summary(report, terminal)]) + "\n"

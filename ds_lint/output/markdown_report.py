"""The report as Markdown: for the comment on a pull request, an issue, or the summary of a workflow."""

from __future__ import annotations

import re

from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.diagnostics.report import page_url
from ds_lint.output.project_root import project_root
from ds_lint.output.sentences import description
from ds_lint.output.summary import summary
from ds_lint.output.terminal import Terminal
from ds_lint.output.text import counted, visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report

_CODE = re.compile("`([^`]+)`")
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>|~&]")
_MENTION = re.compile(r"(?<=[@#])(?=\w)")  # of a user or an issue, to which a comment would be linked
_NOTHING = "&#8203;"  # a space without width


def render(report: Report, _terminal: Terminal) -> str:
    """A heading with the numbers, a table of the findings, the training runs and what was checked."""
    return limited(report, None)


def limited(report: Report, most: int | None) -> str:
    """The same in at most so many bytes of UTF-8: the least severe findings are left out, with their number."""
    head = f"### ds-lint: {_numbers(report)}\n"
    rows = _rows(report)
    tail = _tail(report)
    left_out = 0
    if most is not None:
        room = most - len(f"{head}{_table(())}{tail}{_more(len(rows))}".encode(errors="replace"))
        kept = []
        for row in rows:
            room -= len(row.encode(errors="replace"))
            if room < 0:
                break
            kept.append(row)
        left_out = len(rows) - len(kept)
        rows = kept
    return f"{head}{_table(rows) if rows else ''}{_more(left_out) if left_out else ''}{tail}"


def _numbers(report: Report) -> str:
    severities = [finding.severity for finding in report.findings]
    numbers = [counted(severities.count(one), one) for one in SEVERITIES if one in severities]
    return ", ".join(numbers) or "no findings"


def _table(rows: list[str] | tuple[str, ...]) -> str:
    return "".join(["\n| severity | rule | place | finding |\n|---|---|---|---|\n", *rows])


def _rows(report: Report) -> list[str]:
    """A row for each finding, the most severe first."""
    root = project_root()
    found = [(file, finding) for file in report.files for finding in file.findings]
    found.sort(key=lambda one: SEVERITIES.index(one[1].severity))
    return [_row(root.shown, file, finding) for file, finding in found]


def _row(shown: Callable[[str], str], file: FileReport, finding: Finding) -> str:
    place = file.place(finding)
    where = f"{shown(place.path or file.path)}:{file.shown_document(finding).shown_place(place.span.start)}"
    rule = f"[{finding.code}]({page_url(finding)}) {finding.name}"
    text = "<br>".join(escaped(visible(line)) for line in description(finding).split("\n"))
    return f"| {finding.severity} | {rule} | {_code(visible(where))} | {text} |\n"


def _tail(report: Report) -> str:
    """The last lines for people, and the training runs."""
    plain = Terminal()
    lines = summary(report, plain)
    if report.findings:  # the heading has their number
        lines = [line for line in lines if not line.startswith(_numbers(report))]
    if runs := report.smoke:
        from ds_lint.output import smoke  # a check without runs does not pay for them

        lines = [*smoke.records(runs, plain), *lines]
    return "".join(f"\n{escaped(visible(line))}\n" for line in lines)


def _more(number: int) -> str:
    return f"\nAnd {counted(number, 'finding')} more, for which there is no room here.\n"


def escaped(text: str) -> str:
    """A text in a cell of a table: what is between backticks is code, and nothing else acts."""
    parts = _CODE.split(text)  # every other one is code
    return "".join(_code(part) if place % 2 else _plain(part) for place, part in enumerate(parts))


def _plain(text: str) -> str:
    return _MENTION.sub(_NOTHING, _SPECIAL.sub(r"\\\g<0>", text))


def _code(text: str) -> str:
    """A span of code, in which nothing can be escaped: with a bar, which ends the cell even there, it is HTML."""
    text = text.replace("`", "'")
    return f"<code>{'&#124;'.join(map(_plain, text.split('|')))}</code>" if "|" in text else f"`{text}`"

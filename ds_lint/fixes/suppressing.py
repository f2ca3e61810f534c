"""Comments that suppress findings, added to a text that may have comments.

A comment goes above the line with the finding, because behind a value without quotes hjson reads it as part of the
value. Every text is linted before it is returned: the findings have disappeared, and none is new.
"""

from __future__ import annotations

from collections import Counter

from ds_lint.diagnostics.finding import Edit
from ds_lint.diagnostics.suppression import MARK, suppressions_of
from ds_lint.fixes import layout
from ds_lint.fixes.application import edited
from ds_lint.record import Record
from ds_lint.source import documents
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.source.document import Document

    Lint = Callable[[Document], FileReport]

_BYTE_ORDER_MARK = "\ufeff"


class Suppressed(Record):
    """A text with further comments, how many were added or extended, and the findings that they suppress."""

    text: str
    comments: int
    findings: list[Finding]


def suppress(document: Document, findings: Iterable[Finding], lint: Lint) -> Suppressed:
    """The text with comments for as many of these findings of it as comments can suppress."""
    by_line: dict[int, list[Finding]] = {}
    for finding in findings:
        by_line.setdefault(document.position(finding.span.start)[0], []).append(finding)
    before = _problems(lint(document).findings)

    def text_with(lines: list[int]) -> str | None:
        """The text with comments for all findings of these lines; None if they do not do what they are for."""
        text = edited(document.text, [_comment(document, line, by_line[line]) for line in lines])
        changed = documents.again(document, text)
        if changed is None:
            return None
        after = _problems(lint(changed).findings)
        return text if after <= before - _problems(one for line in lines for one in by_line[line]) else None

    text, groups = document.text, [list(by_line)]
    kept: list[int] = []
    while groups:  # all lines at once, and halves of those that cannot be
        group = groups.pop()
        if (better := text_with([*kept, *group])) is not None:
            kept, text = [*kept, *group], better
        elif len(group) > 1:
            half = len(group) // 2
            groups += [group[half:], group[:half]]
    return Suppressed(text, len(kept), [finding for line in kept for finding in by_line[line]])


def _comment(document: Document, line: int, findings: list[Finding]) -> Edit:
    """The edit that adds a comment about these findings of a line, or extends the one that the line has."""
    text, names = document.text, ", ".join(dict.fromkeys(finding.name for finding in findings))
    for suppression in suppressions_of(document):
        if suppression.line == line and suppression.words:
            end = suppression.words[-1].span.end
            return Edit(Span(end, end), f", {names}")
    start = document.line_starts()[line - 1]
    start += text.startswith(_BYTE_ORDER_MARK, start)
    indent = text[start : layout.after_blanks(text, start)]
    newline = layout.line_break(text, start) or ("\r\n" if "\r\n" in text else "\n")
    sign = "#" if document.has_own_comments else "//"  # of Python and YAML, of JSON with comments
    return Edit(Span(start, start), f"{indent}{sign} {MARK} ignore[{names}]{newline}")


def _problems(findings: Iterable[Finding]) -> Counter[tuple[str, str | None]]:
    """How often each problem is there, without its place, which moves with the text."""
    return Counter((finding.code, finding.key) for finding in findings)

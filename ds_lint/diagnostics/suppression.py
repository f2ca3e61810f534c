"""Comments that hold findings back: ``// ds-lint: ignore[unknown-key, DS105] reason``.

At the end of a line it is about the findings in that line, on a line of its own about those in the next line that has
more than comments, and ``ignore-file[...]`` at the top about those in the whole file. It names its rules one by one. It
works where the file is read with comments, so not with the Trainer and Accelerate, which refuse such a file.
"""

from __future__ import annotations

import re

from ds_lint.source.comments import comments_of
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.source.document import Document

MARK = "ds-lint:"
UNUSED = "unused-suppression"  # the rule that is asked once all other findings are known
_DIRECTIVE = re.compile(MARK + r"[ \t]*ignore(?P<file>-file)?\b(?:[ \t]*\[(?P<rules>[^\]\n]*)\])?")
_WORD = re.compile(r"[^\s,]+")


class Word:
    """A rule as a comment names it, and whether it held anything back."""

    __slots__ = ("is_used", "span", "text")

    def __init__(self, text: str, span: Span) -> None:
        self.text = text
        self.span = span
        self.is_used = False

    def names(self, rule: Rule | Finding) -> bool:
        """Whether it is the code or the name of a rule."""
        return self.text.lower() in (rule.code.lower(), rule.name)


class Suppression:
    """One comment. ``line`` is the line that it is about, None for the whole file."""

    __slots__ = ("comment", "is_too_late", "line", "span", "unused", "words")

    def __init__(self, comment: Span, span: Span, words: list[Word], line: int | None, *, is_too_late: bool) -> None:
        self.comment = comment
        self.span = span  # of what is addressed to ds-lint
        self.words = words
        self.line = line
        self.is_too_late = is_too_late  # about the whole file, but below its first key
        self.unused: list[Word] = []  # what of it holds nothing back, once all findings are known

    def holding(self, finding: Finding, line: int) -> Word | None:
        """The word that holds back a finding of a line, or None."""
        if self.is_too_late or self.line not in (None, line):
            return None
        return next((word for word in self.words if word.names(finding)), None)


def suppressions_of(document: Document) -> list[Suppression]:
    """The comments of a document that are addressed to ds-lint."""
    if document.suppressions is None:
        document.suppressions = []
        if MARK in document.text:
            document.suppressions = list(suppressions_among(document, list(comments_of(document))))
    return document.suppressions


def suppressions_among(document: Document, comments: list[Span]) -> Iterator[Suppression]:
    """Those among the comments of a text, whatever its language, that are addressed to ds-lint."""
    rest = _without(document.text, comments)
    root = document.root
    top = min((member.key_span.start for member in root.members), default=len(rest)) if root else len(rest)
    for comment in comments:
        found = _DIRECTIVE.search(document.text, comment.start, comment.end)
        if found is None:
            continue
        start = found.start("rules")
        words = [
            Word(word[0], Span(start + word.start(), start + word.end()))
            for word in _WORD.finditer(found["rules"] or "")
        ]
        line = None if found["file"] else document.position(_place_meant(rest, comment))[0]
        is_too_late = found["file"] is not None and comment.start > top
        yield Suppression(comment, Span(*found.span()), words, line, is_too_late=is_too_late)


def apply(report: FileReport, rules: list[Rule]) -> None:
    """Take away what comments hold back, and note where they hold nothing back although the rule was asked."""
    if "deepspeed" not in report.stacks:
        return  # nobody reads this file with its comments
    suppressions = suppressions_of(report.document)
    for suppression in suppressions:
        for word in suppression.words:
            word.is_used = False  # a document may be linted again
    kept = [finding for finding in report.findings if not _is_held_back(finding, report.document, suppressions)]
    report.suppressed = len(report.findings) - len(kept)
    report.findings = kept
    for suppression in suppressions:
        if not suppression.is_too_late:
            suppression.unused = [
                word for word in suppression.words if not word.is_used and any(word.names(rule) for rule in rules)
            ]


def _is_held_back(finding: Finding, document: Document, suppressions: Iterable[Suppression]) -> bool:
    line = document.position(finding.span.start)[0]
    holding = [word for suppression in suppressions if (word := suppression.holding(finding, line)) is not None]
    for word in holding:
        word.is_used = True
    return bool(holding)


def _without(text: str, comments: list[Span]) -> str:
    """The text with spaces in the place of its comments."""
    parts, end = [], 0
    for comment in comments:
        inside = text[comment.start : comment.end]
        parts += [text[end : comment.start], "".join("\n" if sign == "\n" else " " for sign in inside)]
        end = comment.end
    return "".join([*parts, text[end:]])


def _place_meant(rest: str, comment: Span) -> int:
    """A place in the line that a comment is about: its own if there is something before it, else the next content."""
    start_of_line = rest.rfind("\n", 0, comment.start) + 1
    if rest[start_of_line : comment.start].strip():
        return comment.start
    after = rest[comment.end :]
    return comment.end + len(after) - len(after.lstrip())

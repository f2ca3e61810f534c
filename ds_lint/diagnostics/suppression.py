"""Comments that suppress findings: ``// ds-lint: ignore[unknown-key, DS105] reason``.

At the end of a line it suppresses findings on that line, on a line of its own those on the next line that has more than
comments. ``ignore-file[...]`` at the top suppresses findings in the whole file. A comment names each rule. It has no
effect with the Trainer and Accelerate, which reject a file with comments. A comment in a script or a launch suppresses
what is about that.
"""

from __future__ import annotations

import re

from ds_lint.record import Record, field
from ds_lint.source.comments import comments_of
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from dataclasses import KW_ONLY

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.source.document import Document

MARK = "ds-lint:"
UNUSED = "unused-suppression"  # the rule that runs once all other findings are known
_DIRECTIVE = re.compile(MARK + r"[ \t]*ignore(?P<file>-file)?\b(?:[ \t]*\[(?P<rules>[^\]\n]*)\])?")
_WORD = re.compile(r"[^\s,]+")


class Word(Record):
    """A rule as a comment names it, and whether it has suppressed a finding."""

    text: str
    span: Span
    is_used: bool = False

    def names(self, rule: Rule | Finding) -> bool:
        """Whether it is the code or the name of a rule, or the id of what it found."""
        advisory = getattr(rule, "advisory", None)
        return self.text.lower() in (rule.code.lower(), rule.name, (advisory or rule.name).lower())


class Suppression(Record):
    """One comment. ``line`` is the line whose findings it suppresses, None for the whole file."""

    comment: Span
    span: Span  # of the part that is addressed to ds-lint
    words: list[Word]
    line: int | None
    _: KW_ONLY
    is_too_late: bool  # for the whole file, but below its first key
    unused: list[Word] = field(factory=list)  # the rules that suppress nothing, once all findings are known

    def suppressing(self, finding: Finding, line: int) -> Word | None:
        """The word that suppresses a finding on a line, or None."""
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
    """Remove the findings that comments suppress, and note the words that suppress nothing although their rule runs."""
    takes_comments = "deepspeed" in report.stacks or report.document.has_own_comments  # other stacks reject them
    suppressions = suppressions_of(report.document) if takes_comments else []
    for suppression in suppressions:
        for word in suppression.words:
            word.is_used = False  # a document may be linted again
    kept = [
        finding
        for finding in report.findings
        if not _is_suppressed(finding, report.document.position(finding.span.start)[0], suppressions)
        and not _is_suppressed_elsewhere(finding, report)
    ]
    report.suppressed = len(report.findings) - len(kept)
    report.findings = kept
    for suppression in suppressions:
        if not suppression.is_too_late:
            suppression.unused = [
                word
                for word in suppression.words
                if not word.is_used
                and any(word.names(rule) for rule in rules if rule.alone_on != "names")  # of another document
            ]


def _is_suppressed_elsewhere(finding: Finding, report: FileReport) -> bool:
    """Whether a comment in the script or launch that a finding is about suppresses it."""
    if not finding.is_elsewhere:
        return False
    document = report.shown_document(finding)
    if document.comments is None and MARK in document.text:
        from ds_lint.source.script_comments import comments_of_script  # the parser of Python takes time to load

        document.comments = list(comments_of_script(document))
    line = document.position(report.place(finding).span.start)[0]
    return _is_suppressed(finding, line, suppressions_of(document))


def _is_suppressed(finding: Finding, line: int, suppressions: Iterable[Suppression]) -> bool:
    words = [word for suppression in suppressions if (word := suppression.suppressing(finding, line)) is not None]
    for word in words:
        word.is_used = True
    return bool(words)


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
    if rest[start_of_line : comment.start].lstrip("\ufeff").strip():  # a byte order mark is not content
        return comment.start
    after = rest[comment.end :]
    return comment.end + len(after) - len(after.lstrip())

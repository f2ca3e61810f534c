"""Findings as diagnostics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

from lsprotocol import types
from pygls.uris import from_fs_path

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.report import page_url
from ds_lint.lsp.positions import Lines
from ds_lint.output.sentences import doubt
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.lsp.documents import Found, LintResult
    from ds_lint.source.document import Document

SOURCE = "ds-lint"
MOST = 1_000  # findings of one text that are sent
SEVERITIES = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
_UNNECESSARY = ("ignored", "no-effect")  # effects of what might as well not be there
_DEPRECATED = "deprecated-key"


class ClientPlaces(Protocol):
    """Positions for the client of places in the text of a config."""

    encoding: str

    def range(self, span: Span) -> types.Range:
        """The range of a span."""


class InFile:
    """Positions in the text that the client has, which is the file, also if that of the config is part of it."""

    def __init__(self, lines: Lines, document: Document) -> None:
        self.encoding = lines.encoding
        self._lines = lines
        self._document = document

    def range(self, span: Span) -> types.Range:
        """The range of a span."""
        return self._lines.range(self._document.span_in_file(span))


def diagnostics(result: LintResult, uri: str) -> list[types.Diagnostic]:
    """The findings of a result, in its order; of a text with thousands the first, and how many there are."""
    found = result.found
    shown = [
        diagnostic(each, InFile(result.lines, each.report.document), uri, number)
        for number, each in enumerate(found[:MOST])
    ]
    if len(found) > MOST:
        message = f"{len(found)} findings; the editor shows {MOST} of them, ds-lint check all"
        opening = result.lines.range(Span(0, 1))
        shown.append(types.Diagnostic(opening, message, types.DiagnosticSeverity.Warning, source=SOURCE))
    return shown


def diagnostic(found: Found, places: ClientPlaces, uri: str, number: int) -> types.Diagnostic:
    """One finding; ``data`` says which of the findings it is, and where its page lies."""
    finding = found.finding
    url = page_url(finding)
    shown, others = found.report.place(finding), found.report.related(finding)
    if shown.path != found.report.path:  # in another text, which ``shown.py`` shows if it is open
        shown, others = Related(finding.span, finding.label), finding.related
    related = [_related(one, found.report, places, uri) for one in others]
    return types.Diagnostic(
        range=places.range(shown.span),
        message=_message(finding),
        severity=SEVERITIES[finding.severity],
        code=finding.code,
        code_description=types.CodeDescription(href=url),
        source=SOURCE,
        tags=_tags(finding),
        related_information=[one for one in related if one is not None] or None,
        data={
            "finding": number,
            "name": finding.name,
            "effect": finding.effect,
            "key": finding.key,
            "url": url,
            **({"advisory": finding.advisory} if finding.advisory is not None else {}),
        },
    )


def _message(finding: Finding) -> str:
    """What is wrong, for which releases if not for all, what may change it, and the way out."""
    releases = f" ({finding.affected_releases})" if finding.releases else ""
    return "\n".join(filter(None, (f"{finding.message}{releases}", doubt(finding), finding.help)))


def _tags(finding: Finding) -> list[types.DiagnosticTag] | None:
    if finding.name == _DEPRECATED:
        return [types.DiagnosticTag.Deprecated]
    return [types.DiagnosticTag.Unnecessary] if finding.effect in _UNNECESSARY else None


def _related(
    related: Related, report: FileReport, places: ClientPlaces, uri: str
) -> types.DiagnosticRelatedInformation | None:
    """Another place, with its text where it is in another file; None where that file's text is not known."""
    if related.path in (None, report.path):
        location = types.Location(uri, places.range(related.span))
    else:
        text = text_of(report, related.path)
        address = from_fs_path(os.path.abspath(related.path))
        if text is None or address is None:
            return None
        location = types.Location(address, Lines(text, places.encoding).range(related.span))
    return types.DiagnosticRelatedInformation(location, related.label)


def text_of(report: FileReport, path: str) -> str | None:
    """The text of a file that a finding refers to; None if it is not known."""
    return next((document.text for document in report.material if document.path == path), None)

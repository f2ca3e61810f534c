"""The Reviewdog Diagnostic Format, with which reviewdog comments on pull requests of many code hosts.

It is described in https://github.com/reviewdog/reviewdog/tree/master/proto/rdf. Columns count bytes of UTF-8.
"""

from __future__ import annotations

from json import dumps

from ds_lint.addresses import SITE
from ds_lint.diagnostics.report import page_url
from ds_lint.output.project_root import project_root
from ds_lint.output.secrets import masked, secrets_of
from ds_lint.output.sentences import description
from ds_lint.output.text import visible
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding, Fix
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.project_root import Root
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document

    Json = dict[str, object]

SEVERITIES = {"error": "ERROR", "warning": "WARNING", "info": "INFO"}
_BYTES_OF_NO_TEXT = ("\udc80", "\udcff")  # how a byte that is not UTF-8 is read


def render(report: Report, _terminal: Terminal) -> str:
    """The result of a run."""
    root = project_root()
    result = {
        "source": {"name": "ds-lint", "url": SITE},
        "diagnostics": [_diagnostic(root, file, finding) for file in report.files for finding in file.findings],
    }
    return dumps(result, indent=2) + "\n"


def _diagnostic(root: Root, file: FileReport, finding: Finding) -> Json:
    """A finding; its path is absolute, because reviewdog takes another one from its own working directory."""
    place = file.place(finding)
    path, document = place.path or file.path, file.shown_document(finding)
    described: Json = {
        "message": visible(description(finding)),
        "location": {
            "path": visible(root.absolute(path)),
            "range": _range(document, document.span_in_file(place.span)),
        },
        "severity": SEVERITIES[finding.severity],
        "code": {"value": finding.code, "url": page_url(finding)},
    }
    is_offered = finding.fix and finding.fix.edits and finding.fix.applied_with
    if finding.fix and is_offered and path == file.path:  # a suggestion has no path
        described |= _suggestion(file.document, finding.fix)
    return described


def _suggestion(document: Document, fix: Fix) -> Json:
    """All edits of a fix as one, with what lies between them: each suggestion can be accepted alone.

    There is none if a secret lies between them, which a report does not have.
    """
    edits = sorted(
        ((document.span_in_file(edit.span), edit.text) for edit in fix.edits), key=lambda edit: edit[0].start
    )
    start = end = edits[0][0].start
    text = ""
    for span, new in edits:
        text += document.file_text[end : span.start] + document.written_in_file(new)
        end = span.end
    if masked(text, secrets_of([document])) != text:
        return {}
    return {"suggestions": [{"range": _range(document, Span(start, end)), "text": text}]}


def _range(document: Document, span: Span) -> Json:
    """A range of the file."""
    return {"start": _position(document, span.start), "end": _position(document, span.end)}


def _position(document: Document, offset: int) -> Json:
    """Line and column, both from 1."""
    position = document.position if document.notebook is None else document.notebook.position
    line, column = position(offset)
    return {"line": line, "column": _bytes(document.file_text[offset - column + 1 : offset]) + 1}


def _bytes(text: str) -> int:
    if text.isascii():
        return len(text)
    first, last = _BYTES_OF_NO_TEXT
    return sum(1 if first <= one <= last else len(one.encode("utf-8", "surrogatepass")) for one in text)

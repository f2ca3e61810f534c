"""The report for programs, as ``schemas/report.schema.json`` describes it.

Paths are as they were given, with slashes on Windows, too. The text is ASCII: a lone surrogate in a config is an escape
here, not a crash.
"""

from __future__ import annotations

from ds_lint.diagnostics.report import page_url
from ds_lint.output.text import slashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Edit, Finding, Fix, Related
    from ds_lint.diagnostics.report import Complaint, FileReport, Report
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Span

    Json = dict[str, object]

VERSION = 1  # raised when a reader of the report would have to change


def render(report: Report, _terminal: Terminal) -> str:
    """The whole report as one JSON object, the same wherever it goes."""
    from json import dumps

    return dumps(as_object(report), indent=2) + "\n"


def as_object(report: Report) -> Json:
    """The report as plain dicts and lists."""
    return {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": report.version},
        **({"notes": report.notes} if report.notes else {}),
        "files": [*map(_file, report.files), *map(_unopened, report.unopened)],
        "findings": [_finding(report, file, finding) for file in report.files for finding in file.findings],
        **_smoke(report),
    }


def _smoke(report: Report) -> Json:
    """The training runs; empty if none was requested."""
    if all(file.smoke is None for file in report.files):
        return {}
    from ds_lint.output import smoke

    return {"smoke": [smoke.as_object(verdict) for verdict in report.smoke]}


def _file(file: FileReport) -> Json:
    described: Json = {"path": slashed(file.path), "stack": file.stack, "target": file.target}
    if file.sources:
        described["sources"] = file.sources
    if file.facts:
        described["facts"] = file.facts
    if file.ranges:
        described["ranges"] = {library: _stretch(stretch) for library, stretch in file.ranges.items()}
    if unreported := file.unreported:
        described["held_back"] = unreported
    if file.fixed is not None:
        described["fixed"] = [_fixed(finding) for finding in file.fixed]
    return described


def _unopened(complaint: Complaint) -> Json:
    """A file that could not be opened: what it would have been checked for, and why it was not."""
    return {
        "path": None if complaint.path is None else slashed(complaint.path),
        "stack": complaint.stack,
        "target": complaint.target,
        "error": complaint.reason,
    }


def _fixed(finding: Finding) -> Json:
    """A finding that is no longer there: without its place, which was in another text."""
    assert finding.fix is not None  # noqa: S101 - which was applied
    return {
        "code": finding.code,
        "name": finding.name,
        "key": finding.key,
        "title": finding.fix.title,
        "safety": finding.fix.safety,
    }


def _stretch(stretch: tuple[str, str]) -> Json:
    since, until = stretch
    return {"since": since, "until": until}


def _finding(report: Report, file: FileReport, finding: Finding) -> Json:
    described: Json = {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "effect": finding.effect,
        "stage": finding.stage if finding.effect == "rejected" else None,
    }
    if finding.advisory:
        described["advisory"] = finding.advisory
    if finding.doubts:
        described["doubts"] = finding.doubts
    if finding.confirmed:
        described["confirmed"] = finding.confirmed
    if finding.effects:
        described["effects"] = finding.effects
    if finding.releases:
        described["releases"] = {
            library: [_stretch(stretch) for stretch in stretches] for library, stretches in finding.releases.items()
        }
    place = file.place(finding)
    described |= {
        "key": finding.key,
        "message": finding.message,
        "help": finding.help,
        "url": page_url(finding),
        "path": slashed(place.path or file.path),
        **_place(file.shown_document(finding), place.span),
        "related": [_related(report, file, related) for related in file.related(finding)],
        "fix": _fix(file, finding.fix, is_elsewhere=place.path != file.path) if finding.fix else None,
    }
    return described


def _related(report: Report, file: FileReport, related: Related) -> Json:
    document = file.document if related.path is None else report.document(related.path)
    return {
        "path": slashed(related.path or file.path),
        **(_place(document, related.span) if document else {"span": None}),
        "label": related.label,
    }


def _place(document: Document, span: Span) -> Json:
    """The span in the file, and in a notebook the cell and the line in it where the span starts."""
    inside = document.span_in_file(span)
    ends = zip(document.ends_in_file(span), (inside.start, inside.end), strict=True)
    start, end = ({"line": line, "column": column, "offset": offset} for (line, column), offset in ends)
    cell = document.cell_at(span.start)
    return {"span": {"start": start, "end": end}, **({"cell": cell[0], "cell_line": cell[1]} if cell else {})}


def _fix(file: FileReport, fix: Fix, *, is_elsewhere: bool) -> Json:
    edits = [_edit(file.document, edit) for edit in fix.edits]
    path = {"path": slashed(file.path)} if is_elsewhere else {}
    return {"title": fix.title, "safety": fix.safety, **path, "edits": edits}


def _edit(document: Document, edit: Edit) -> Json:
    span = document.span_in_file(edit.span)
    return {"start": span.start, "end": span.end, "text": document.written_in_file(edit.text)}

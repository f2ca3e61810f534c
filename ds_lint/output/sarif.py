"""The report as SARIF 2.1.0, for code scanning on GitHub, Azure DevOps, and editors with a viewer.

The standard is https://docs.oasis-open.org/sarif/sarif/v2.1.0/; what GitHub makes of it is "SARIF support for code
scanning" in its documentation. The text is ASCII, and the same wherever ds-lint runs but for the address of the root.
"""

from __future__ import annotations

import re
from json import dumps
from typing import NamedTuple
from urllib.parse import quote

from ds_lint.addresses import SITE
from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.diagnostics.report import page_url
from ds_lint.output.identity import identified
from ds_lint.output.project_root import project_root
from ds_lint.output.sentences import description
from ds_lint.output.text import counted, visible
from ds_lint.record import Record
from ds_lint.rule_pages.pages import first_paragraph, page, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Edit, Finding, Fix, Related
    from ds_lint.diagnostics.report import Complaint, FileReport, Report
    from ds_lint.output.project_root import Root
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Span

    Json = dict[str, object]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
ROOT = "%SRCROOT%"
FINGERPRINT = "dsLintIdentity/v2"
LEVELS = {"error": "error", "warning": "warning", "info": "note"}
PRIORITIES = {"error": "error", "warning": "warning", "info": "recommendation"}  # GitHub's problem.severity
MOST_RESULTS = 25_000  # GitHub refuses a run with more
LONGEST_SNIPPET = 400  # characters; a span may be all of a file

_LINK_TO_PAGE = re.compile(r"\]\((DS\d{3}-[a-z0-9-]+)\.md\)")


class Result(NamedTuple):
    """A finding on its way into the report."""

    file: FileReport
    finding: Finding
    fingerprint: str


def render(report: Report, _terminal: Terminal) -> str:
    """The whole report as one run."""
    return dumps(as_object(report, project_root()), indent=1) + "\n"


def as_object(report: Report, root: Root) -> Json:
    """The log as plain dicts and lists."""
    found = [Result(*result) for result in identified(report, root)]
    results = _most_severe(found)
    rules = {result.finding.code: result.finding for result in results}
    codes = sorted(rules)
    log = SarifLog(report, root, {code: index for index, code in enumerate(codes)})
    run = {
        "tool": {
            "driver": {
                "name": "ds-lint",
                "version": report.version,
                "informationUri": SITE,
                "rules": [_rule(rules[code]) for code in codes],
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {ROOT: {"uri": file_uri(root.absolute(root.folder).rstrip("/") + "/")}},
        "invocations": [_invocation(log, len(found) - len(results))],
        "artifacts": [log.artifact(path) for path in dict.fromkeys(file.path for file in report.files)],
        "results": [log.result(result) for result in results],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def quoted(path: str) -> str:
    """A path with slashes as a part of a URI. Bytes that are not UTF-8 stay the same bytes."""
    try:
        return quote(path.encode(errors="surrogateescape"))
    except UnicodeEncodeError:  # half of a pair, as names on Windows may have it
        return quote(path.encode(errors="surrogatepass"))


def file_uri(path: str) -> str:
    """The URI of a file by its path from the root of the file system, with slashes."""
    if path.startswith("//"):  # a share on Windows
        return f"file:{quoted(path)}"
    drive, colon, rest = path.partition(":")
    if colon and "/" not in drive:
        return f"file:///{drive}:{quoted(rest)}"
    return f"file://{quoted(path)}"


def message(text: str) -> Json:
    """A message of plain text: nothing in it is a link, whatever the config is that it quotes."""
    shown = "\n".join(visible(line) for line in text.split("\n"))
    return {"text": re.sub(r"[\[\]\\]", r"\\\g<0>", shown) if "](" in shown else shown}


def _most_severe(results: list[Result]) -> list[Result]:
    """As many as GitHub takes, in their order."""
    if len(results) <= MOST_RESULTS:
        return results
    by_severity = sorted(results, key=lambda result: SEVERITIES.index(result.finding.severity))
    kept = {result.fingerprint for result in by_severity[:MOST_RESULTS]}
    return [result for result in results if result.fingerprint in kept]


def _rule(finding: Finding) -> Json:
    """The rule that a finding is by, as its page has it."""
    text = page(finding)
    summary = first_paragraph(text)
    facts = row(text)
    worst = facts.severities[0]
    url = page_url(finding)
    return {
        "id": finding.code,
        "name": "".join(word.capitalize() for word in finding.name.split("-")),
        "shortDescription": {"text": summary},
        "fullDescription": {"text": summary},
        "help": {
            "text": f"{summary} See {url}",
            "markdown": _LINK_TO_PAGE.sub(rf"]({SITE}rules/\1/)", text),
        },
        "helpUri": url,
        "defaultConfiguration": {"level": LEVELS[worst]},
        "properties": {
            "tags": ["deepspeed", finding.name, *facts.effects],
            "precision": "very-high",
            "problem.severity": PRIORITIES[worst],
        },
    }


def _invocation(log: SarifLog, left_out: int) -> Json:
    """How the run went: what could not be checked, and what a person should know."""
    report = log.report
    notes = list(report.notes)
    if left_out:
        notes.append(f"{counted(left_out, 'finding')} of the least severe left out, because GitHub accepts no more")
    return {
        "executionSuccessful": not report.unreadable,
        "toolExecutionNotifications": [
            *(log.complaint(complaint) for complaint in report.unreadable),
            *({"level": "note", "message": message(note)} for note in notes),
        ],
    }


class SarifLog(Record):
    """What the parts of the log are made from."""

    report: Report
    root: Root
    rules: dict[str, int]  # the place of each in the log, by its code

    def complaint(self, complaint: Complaint) -> Json:
        """Why the run was not successful, with the file that it is about."""
        notification: Json = {"level": "error", "message": message(str(complaint))}
        if complaint.path is not None:
            notification["locations"] = [{"physicalLocation": {"artifactLocation": self._location(complaint.path)}}]
        return notification

    def artifact(self, path: str) -> Json:
        """A file that was linted."""
        return {"location": self._location(path), "roles": ["analysisTarget"]}

    def result(self, result: Result) -> Json:
        """One finding."""
        file, finding, fingerprint = result
        shown = file.place(finding)
        document = file.shown_document(finding)
        place: Json = {"physicalLocation": self._place(shown.path or file.path, document, shown.span)}
        if shown.label:
            place["message"] = message(shown.label)
        described: Json = {
            "ruleId": finding.code,
            "ruleIndex": self.rules[finding.code],
            "level": LEVELS[finding.severity],
            "message": message(description(finding)),
            "locations": [place],
            "partialFingerprints": {FINGERPRINT: fingerprint},
        }
        if others := file.related(finding):
            described["relatedLocations"] = [
                self._related(file, number, related) for number, related in enumerate(others, start=1)
            ]
        if finding.fix:
            described["fixes"] = [self._fix(file, finding.fix)]
        described["properties"] = _properties(finding)
        return described

    def _related(self, file: FileReport, number: int, related: Related) -> Json:
        document = file.document if related.path is None else self.report.document(related.path)
        place = self._place(related.path or file.path, document, related.span)
        label = {"message": message(related.label)} if related.label else {}
        return {"id": number, "physicalLocation": place, **label}

    def _place(self, path: str, document: Document | None, span: Span) -> Json:
        """A place; only its file where that was not read."""
        place: Json = {"artifactLocation": self._location(path)}
        if document is not None:
            region = _region(document, span)
            snippet = document.text[span.start : span.end]
            if 0 < len(snippet) <= LONGEST_SNIPPET:
                region["snippet"] = {"text": snippet}
            place["region"] = region
        return place

    def _location(self, path: str) -> Json:
        relative = self.root.relative(path)
        if relative is not None:
            return {"uri": quoted(relative), "uriBaseId": ROOT}
        return {"uri": file_uri(self.root.absolute(path))}

    def _fix(self, file: FileReport, fix: Fix) -> Json:
        change = {
            "artifactLocation": self._location(file.path),
            "replacements": [_replacement(file.document, edit) for edit in fix.edits],
        }
        return {"description": message(f"{fix.title} ({fix.safety})"), "artifactChanges": [change]}


def _properties(finding: Finding) -> Json:
    """What SARIF has no field for."""
    properties: Json = {"effect": finding.effect}
    if finding.effect == "rejected":
        properties["stage"] = finding.stage
    if finding.effects:
        properties["effects"] = finding.effects
    if finding.key:
        properties["key"] = finding.key
    return properties


def _region(document: Document, span: Span) -> Json:
    (line, column), (last_line, last_column) = (
        _without_mark(document, *place) for place in document.ends_in_file(span)
    )
    return {"startLine": line, "startColumn": column, "endLine": last_line, "endColumn": last_column}


def _without_mark(document: Document, line: int, column: int) -> tuple[int, int]:
    """Line and column, both from 1; SARIF does not count a byte order mark."""
    has_mark = line == 1 and document.text.startswith("\ufeff")
    return line, max(1, column - has_mark)


def _replacement(document: Document, edit: Edit) -> Json:
    replacement: Json = {"deletedRegion": _region(document, edit.span)}
    if edit.text:
        replacement["insertedContent"] = {"text": document.written_in_file(edit.text)}
    return replacement

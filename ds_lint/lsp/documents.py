"""The open texts, as the client changes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from lsprotocol import types
from pygls.uris import to_fs_path

from ds_lint.lsp.positions import Lines
from ds_lint.source.documents import configs_of
from ds_lint.source.languages import language_of
from ds_lint.source.python import syntax_error

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.lsp.runs import Subject
    from ds_lint.session.context import LintContext
    from ds_lint.session.material import Material
    from ds_lint.source.document import Document
    from ds_lint.source.languages import Language

LARGE = 100_000  # characters: from here on a result is made beside the loop that answers
MANY = 50  # findings: from here on their fixes are tried beside the loop, too
HUGE = 500_000  # from here on nothing is answered but what was linted


MARK = "\ufeff"
_BY_CLIENT: dict[str, Language] = {
    "markdown": "markdown",
    "python": "python",
    "shellscript": "shell",
    "yaml": "yaml",
}  # as the protocol calls languages


class Found(NamedTuple):
    """A finding, and the report on the config that it is in."""

    finding: Finding
    report: FileReport


class LintResult:
    """What was found in one version of a text, and on what terms; there is a report on each config in it."""

    def __init__(self, reports: list[FileReport], context: LintContext, lines: Lines, complaint: str = "") -> None:
        self.reports = reports
        self.context = context
        self.lines = lines  # that the reports count in
        self.complaint = complaint  # of a file that should have counted
        self._by_all: dict[int, FileReport] = {}  # by the index of the config

    @property
    def found(self) -> list[Found]:
        """The findings in all configs, config by config."""
        return [Found(finding, report) for report in self.reports for finding in report.findings]

    def by_all(self, report: FileReport) -> FileReport:
        """The report that the fixes of a config are held to: by all rules, and before a baseline."""
        index = report.document.index
        if index not in self._by_all:
            self._by_all[index] = self.context.lint_by_all(report.document)
        return self._by_all[index]


class OpenDocument:
    """One text that a client has open; ``path`` is where it lies, or would for one that is not saved yet."""

    def __init__(self, item: types.TextDocumentItem, path: str, encoding: str) -> None:
        self.uri = item.uri
        self.path = path
        self.whole_path = whole_path(path)
        self.language = item.language_id
        self.version = item.version
        self._encoding = encoding
        self.lines = self._lines(item.text)
        self.is_config = False  # recognised; it stays one while it is open
        self.result: LintResult | None = None
        self.material: list[Material] = []  # the launches and recipes that it was linted with
        self.next_time = 0.0  # before which it is not linted again, on the clock of ``time.monotonic``
        self.runs: dict[Subject, list[tuple[int, Verdict]]] = {}  # with the text as it is now, by index of the config
        self._read: tuple[Lines, list[Document]] | None = None

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self.lines.text

    @property
    def written_in(self) -> Language:
        """The language of the text, by what the client calls it or by its name."""
        return _BY_CLIENT.get(self.language) or language_of(self.path)

    @property
    def configs(self) -> list[Document]:
        """The configs in the text as it is now, read as far as that is possible."""
        lines, read = self.lines, self._read  # a large text is read beside the loop that changes it
        if read is None or read[0] is not lines:
            read = self._read = (lines, configs_of(lines.text, self.path, self.written_in))
        return read[1]

    @property
    def verdicts(self) -> dict[int, list[Verdict]]:
        """What the runs of each config have shown, by its index."""
        found: dict[int, list[Verdict]] = {}
        for run in self.runs.values():
            for index, verdict in run:
                found.setdefault(index, []).append(verdict)
        return found

    @property
    def is_plain_config(self) -> bool:
        """Whether the text is a config that names no other file: what launches it does not depend on it."""
        return self.is_config and self.written_in == "json" and all(one.kind == "deepspeed" for one in self.configs)

    @property
    def is_unparsed(self) -> bool:
        """Whether the text is Python that does not parse now: what it holds is then as it was before."""
        return self.written_in == "python" and not self.configs and syntax_error(self.text) is not None

    def config_around(self, offset: int) -> Document | None:
        """The config that a place is in; where a line is half typed, the one that the text has without the line."""
        for text in (self.text, _without_line(self.text, offset)):
            found = self.configs if text is self.text else configs_of(text, self.path, self.written_in)
            for document in found:
                root = document.root
                if document.language == "json" or (root is not None and root.span.start < offset < root.span.end):
                    return document
        return None

    def configs_without_line(self, offset: int) -> list[Document]:
        """The configs that the text has without the line around a place, which may be half typed."""
        return configs_of(_without_line(self.text, offset), self.path, self.written_in)

    @property
    def current(self) -> LintResult | None:
        """The result of the text as it is now; None where that is not made yet, or there is nothing to lint."""
        return self.result if self.result is not None and self.result.lines is self.lines else None

    def change(self, changes: Sequence[types.TextDocumentContentChangeEvent], version: int) -> None:
        """Take the client's changes, one after the other."""
        for change in changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                self.lines = self.lines.replaced(*self.lines.span(change.range), change.text)
            else:
                self.lines = self._lines(change.text)
        self.version = version

    def saved(self) -> None:
        """Look at the file again, which may have its byte order mark no longer."""
        self.lines = self._lines(self.text[self.lines.hidden :])

    def _lines(self, text: str) -> Lines:
        """The lines of a text as the client has it: the file may begin with a mark that readers stumble over."""
        hidden = MARK if not text.startswith(MARK) and _begins_with_mark(self.path) else ""
        return Lines(hidden + text, self._encoding, hidden=len(hidden))


def whole_path(path: str) -> str:
    """The path of a file that may be named by several; that of a text which can lie nowhere is as it is."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return path


def _without_line(text: str, offset: int) -> str:
    """The text with spaces in the place of the line around a place."""
    start, end = text.rfind("\n", 0, offset) + 1, text.find("\n", offset)
    end = len(text) if end == -1 else end
    return f"{text[:start]}{' ' * (end - start)}{text[end:]}"


def _begins_with_mark(path: str) -> bool:
    """Whether a file begins with a byte order mark."""
    try:
        with open(path, "rb") as file:
            return file.read(3) == MARK.encode()
    except (OSError, ValueError):
        return False


class OpenDocuments:
    """All texts that the client has open, by their addresses."""

    def __init__(self) -> None:
        self._by_uri: dict[str, OpenDocument] = {}
        self.encoding = "utf-16"
        self.directory = os.curdir  # of texts that lie nowhere yet

    def __iter__(self) -> Iterator[OpenDocument]:
        return iter(list(self._by_uri.values()))

    def open(self, item: types.TextDocumentItem) -> OpenDocument:
        """Take a text that the client has opened."""
        opened = self._by_uri[item.uri] = OpenDocument(item, self.path_of(item.uri), self.encoding)
        return opened

    def get(self, uri: str) -> OpenDocument | None:
        """The text at an address, or None if the client never opened it."""
        return self._by_uri.get(uri)

    def close(self, uri: str) -> OpenDocument | None:
        """Forget a text."""
        return self._by_uri.pop(uri, None)

    def path_of(self, uri: str) -> str:
        """Where a text or notebook lies, or would for one that is not saved yet."""
        try:
            path = to_fs_path(uri)
        except ValueError:  # no address that anything could lie at, such as file://[
            path = None
        if path is not None:
            return os.path.normpath(path)
        return os.path.join(self.directory, os.path.basename(uri.rpartition(":")[2]) or "untitled")

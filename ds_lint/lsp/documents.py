"""The open texts, as the client changes them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.uris import to_fs_path

from ds_lint.lsp.positions import Lines
from ds_lint.source import json as json_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.context import LintContext
    from ds_lint.source.document import Document

LARGE = 100_000  # characters: from here on a result is made beside the loop that answers
MANY = 50  # findings: from here on their fixes are tried beside the loop, too
HUGE = 500_000  # from here on nothing is answered but what was linted


MARK = "\ufeff"


class LintResult:
    """What was found in one version of a text, and on what terms."""

    def __init__(self, report: FileReport, context: LintContext, lines: Lines, complaint: str = "") -> None:
        self.report = report
        self.context = context
        self.lines = lines  # that the report counts in
        self.complaint = complaint  # of a file that should have counted
        self._by_all: FileReport | None = None

    @property
    def by_all(self) -> FileReport:
        """The report that fixes are held to: by all rules, and before a baseline."""
        if self._by_all is None:
            self._by_all = self.context.lint_by_all(self.report.document)
        return self._by_all


class OpenDocument:
    """One text that a client has open; ``path`` is where it lies, or would for one that is not saved yet."""

    def __init__(self, item: types.TextDocumentItem, path: str, encoding: str) -> None:
        self.uri = item.uri
        self.path = path
        self.language = item.language_id
        self.version = item.version
        self._encoding = encoding
        self.lines = self._lines(item.text)
        self.is_config = False  # recognised; it stays one while it is open
        self.result: LintResult | None = None
        self.next_time = 0.0  # before which it is not linted again, on the clock of ``time.monotonic``
        self._read: tuple[Lines, Document] | None = None

    @property
    def text(self) -> str:
        """The text as it is now."""
        return self.lines.text

    @property
    def document(self) -> Document:
        """The text as it is now, read as far as that is possible."""
        lines, read = self.lines, self._read  # a large text is read beside the loop that changes it
        if read is None or read[0] is not lines:
            read = self._read = (lines, json_source.parse(lines.text, self.path))
        return read[1]

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
        opened = self._by_uri[item.uri] = OpenDocument(item, self._path(item.uri), self.encoding)
        return opened

    def get(self, uri: str) -> OpenDocument | None:
        """The text at an address, or None if the client never opened it."""
        return self._by_uri.get(uri)

    def close(self, uri: str) -> OpenDocument | None:
        """Forget a text."""
        return self._by_uri.pop(uri, None)

    def _path(self, uri: str) -> str:
        try:
            path = to_fs_path(uri)
        except ValueError:  # no address that anything could lie at, such as file://[
            path = None
        if path is not None:
            return os.path.normpath(path)
        return os.path.join(self.directory, os.path.basename(uri.rpartition(":")[2]) or "untitled")

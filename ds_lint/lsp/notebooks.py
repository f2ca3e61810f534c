"""Notebooks that a client has open as notebooks: each cell is a text of its own, and a config may use several."""

from __future__ import annotations

import asyncio
from json import dumps
from typing import TYPE_CHECKING

from lsprotocol import types

from ds_lint.lsp.diagnostics import MOST, diagnostic
from ds_lint.lsp.documents import LARGE
from ds_lint.lsp.lint import lint_text
from ds_lint.lsp.positions import Lines
from ds_lint.source import notebook as notebook_source
from ds_lint.source.tree import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ds_lint.lsp.documents import Found, OpenDocuments
    from ds_lint.lsp.project import Projects
    from ds_lint.source.document import Document
    from ds_lint.source.notebook_cells import Cell

    Publish = Callable[[str, list[types.Diagnostic], int | None], None]
    Report = Callable[[BaseException, type[BaseException]], None]

# The notebooks whose cells a client sends.
SELECTOR = types.NotebookDocumentSyncOptions(
    [types.NotebookDocumentFilterWithNotebook(types.NotebookDocumentFilterNotebookType("jupyter-notebook"))]
)
_PAUSE = 0.05  # seconds without a change, after which a notebook is linted


class _OpenCell:
    """One cell; a cell of Markdown has no text here."""

    def __init__(self, cell: types.NotebookCell, item: types.TextDocumentItem | None, encoding: str) -> None:
        self.uri = cell.document
        self.is_code = cell.kind == types.NotebookCellKind.Code
        self.language = item.language_id if item is not None else ""
        self.version = item.version if item is not None else None
        self.lines = Lines(item.text if item is not None else "", encoding)
        self.has_findings = False

    def change(self, content: types.NotebookDocumentCellContentChanges) -> None:
        """Take the client's changes, one after the other."""
        for change in content.changes:
            if isinstance(change, types.TextDocumentContentChangePartial):
                self.lines = self.lines.replaced(*self.lines.span(change.range), change.text)
            else:
                self.lines = Lines(change.text, self.lines.encoding)
        self.version = content.document.version


class _PlaceInCell:
    """Positions in a cell of places in the text that all cells make."""

    def __init__(self, opened: _OpenCell, cell: Cell) -> None:
        self._lines = opened.lines
        self._start = cell.start
        self.encoding = opened.lines.encoding

    def range(self, span: Span) -> types.Range:
        """The range of a span that begins in the cell."""
        return self._lines.range(Span(span.start - self._start, span.end - self._start))


class _OpenNotebook:
    """A notebook and its cells, in their order."""

    def __init__(self, path: str, cells: list[_OpenCell]) -> None:
        self.path = path
        self.cells = cells

    def read(self) -> tuple[list[_OpenCell], list[Document]]:
        """The code cells, and the configs in them, as the file would have them."""
        code = [cell for cell in self.cells if cell.is_code]
        written = [{"cell_type": "code", "source": cell.lines.text} for cell in code]
        languages = {cell.language for cell in code}
        language = "python" if not languages or "python" in languages else languages.pop()
        text = dumps({"cells": written, "metadata": {"language_info": {"name": language}}})
        return code, notebook_source.read(text, self.path)


class OpenNotebooks:
    """All notebooks that the client has open, by their addresses, and their linting."""

    def __init__(self, documents: OpenDocuments, projects: Projects, publish: Publish, report: Report) -> None:
        self._documents = documents
        self._projects = projects
        self._publish = publish
        self._report = report
        self._by_uri: dict[str, _OpenNotebook] = {}
        self._waiting: dict[str, asyncio.TimerHandle] = {}

    def open(self, params: types.DidOpenNotebookDocumentParams) -> None:
        """Take a notebook that the client has opened."""
        document = params.notebook_document
        cells = self._cells(document.cells, params.cell_text_documents)
        self._by_uri[document.uri] = _OpenNotebook(self._documents.path_of(document.uri), cells)
        self._lint_soon(document.uri)

    def change(self, params: types.DidChangeNotebookDocumentParams) -> None:
        """Take what has changed: cells that come and go, and texts."""
        uri, cells = params.notebook_document.uri, params.change.cells
        opened = self._by_uri.get(uri)
        if opened is None or cells is None:
            return
        if cells.structure is not None:
            array = cells.structure.array
            new = self._cells(array.cells or (), cells.structure.did_open or (), opened.cells)
            removed = opened.cells[array.start : array.start + array.delete_count]
            opened.cells[array.start : array.start + array.delete_count] = new
            for cell in removed:
                self._clear(cell)
        by_uri = {cell.uri: cell for cell in opened.cells}
        for content in cells.text_content or ():
            if content.document.uri in by_uri:
                by_uri[content.document.uri].change(content)
        self._lint_soon(uri)

    def close(self, uri: str) -> None:
        """Forget a notebook and its diagnostics."""
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting.cancel()
        opened = self._by_uri.pop(uri, None)
        for cell in opened.cells if opened is not None else ():
            self._clear(cell)

    def lint_all(self) -> None:
        """Lint every notebook again, because something else than its text has changed."""
        for uri in self._by_uri:
            self._lint_soon(uri)

    def _cells(
        self,
        cells: Sequence[types.NotebookCell],
        items: Sequence[types.TextDocumentItem],
        known: Sequence[_OpenCell] = (),
    ) -> list[_OpenCell]:
        """The cells with their texts; one that is only moved is known already."""
        texts, old = {item.uri: item for item in items}, {cell.uri: cell for cell in known}
        return [
            old[cell.document]
            if cell.document in old and cell.document not in texts
            else _OpenCell(cell, texts.get(cell.document), self._documents.encoding)
            for cell in cells
        ]

    def _clear(self, cell: _OpenCell) -> None:
        if cell.has_findings:
            cell.has_findings = False
            self._publish(cell.uri, [], None)

    def _lint_soon(self, uri: str) -> None:
        if (waiting := self._waiting.pop(uri, None)) is not None:
            waiting.cancel()
        self._waiting[uri] = asyncio.get_running_loop().call_later(_PAUSE, self._lint, uri)

    def _lint(self, uri: str) -> None:
        """Lint a notebook as it is now, and send what was found in each of its cells."""
        self._waiting.pop(uri, None)
        opened = self._by_uri[uri]
        try:
            found = self._found(opened)
        except Exception as error:  # noqa: BLE001 - a notebook that cannot be linted must not end the server
            self._report(error, type(error))
            return
        for cell in opened.cells:
            if found.get(cell.uri) or cell.has_findings:
                cell.has_findings = bool(found.get(cell.uri))
                self._publish(cell.uri, found.get(cell.uri, []), cell.version)

    def _found(self, opened: _OpenNotebook) -> dict[str, list[types.Diagnostic]]:
        """The diagnostics of each cell, by its address."""
        is_large = sum(len(cell.lines.text) for cell in opened.cells) > LARGE
        if is_large or self._projects.excludes(opened.path):
            return {}
        cells, documents = opened.read()
        if not documents:
            return {}
        result = lint_text(documents, Lines(documents[0].text), self._projects.context(opened.path))
        found: dict[str, list[types.Diagnostic]] = {}
        for number, one in enumerate(result.found[:MOST]):
            cell = _cell_of(one)
            shown = cells[cell.number - 1]
            found.setdefault(shown.uri, []).append(_diagnostic(one, shown, cell, number))
        return found


def _cell_of(found: Found) -> Cell:
    """The cell that a finding is in."""
    notebook = found.report.document.notebook
    assert notebook is not None  # noqa: S101 - the configs were read in one
    return notebook.cell_at(found.finding.span.start)


def _diagnostic(one: Found, opened: _OpenCell, cell: Cell, number: int) -> types.Diagnostic:
    """A finding as a diagnostic of its cell, with the related places that are in it."""
    finding = one.finding
    inside = range(cell.start, cell.start + len(cell.source) + 1)
    finding.related = [each for each in finding.related if each.path is not None or each.span.start in inside]
    return diagnostic(one, _PlaceInCell(opened, cell), opened.uri, number)

"""The code cells of a Jupyter notebook as one text, and changes of that text as changes of the file.

In the file a cell is an array of strings, one for each line, or one string.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from json import dumps, loads

from ds_lint.record import Record
from ds_lint.source.parts import Part, Places
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.source.tree import Node

# Between two cells: a form feed on a line of its own, which Python takes for white space.
SEPARATOR = "\n\f\n"
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.")
_BETWEEN_LINES = ",\n    "  # of an array with one line, as Jupyter indents it


class Cell(Record):
    """A code cell: its number among all cells, from 1, its source, and where that starts in the text of all."""

    number: int
    node: Node  # of the source in the file
    source: str
    start: int


class Notebook:
    """A notebook: the text of the file, its code cells, and the one text that they make."""

    __slots__ = ("_line_starts", "_text_starts", "cells", "file_text", "is_python", "places", "text")

    def __init__(self, file_text: str, sources: list[tuple[int, Node]], *, is_python: bool) -> None:
        self.file_text = file_text
        self.is_python = is_python
        self.cells: list[Cell] = []
        parts: list[Part] = []
        start = 0
        for number, node in sources:
            if self.cells:
                here = Span(node.span.start, node.span.start)
                parts.append(Part(SEPARATOR, here, is_verbatim=False))
                start += len(SEPARATOR)
            pieces = [piece for line in _lines_of(node) for piece in _pieces(line, file_text)]
            source = "".join(piece.text for piece in pieces)
            self.cells.append(Cell(number, node, source, start))
            parts += pieces
            start += len(source)
        self.places = Places(parts)
        self.text = self.places.text
        self._line_starts: list[int] | None = None
        self._text_starts: list[int] | None = None

    def cell_at(self, offset: int) -> Cell:
        """The cell that a place in the text is in."""
        index = bisect_right(self.cells, offset, key=lambda cell: cell.start) - 1
        return self.cells[max(index, 0)]

    def line_at(self, offset: int) -> int:
        """The line of the text of all cells that a place is in, from 1."""
        if self._text_starts is None:
            self._text_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        return bisect_right(self._text_starts, offset)

    def cell_line(self, line: int) -> tuple[int, int]:
        """The cell that a line of the text of all cells is in, and the line in it."""
        starts = [self.line_at(cell.start) for cell in self.cells]
        index = max(bisect_right(starts, line) - 1, 0)
        return self.cells[index].number, line - starts[index] + 1

    def line_in_file(self, line: int) -> int:
        """The line of the file that a line of the text of all cells comes from."""
        self.line_at(0)
        assert self._text_starts is not None  # noqa: S101 - see line_at
        start = self._text_starts[min(line, len(self._text_starts)) - 1]
        return self.position(self.places.span(Span(start, min(start + 1, len(self.text)))).start)[0]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the file of an offset in it, both from 1."""
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.file_text))]
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def with_text(self, text: str) -> str | None:
        """The text of the file once the cells have another text; None if that has not the same cells."""
        sources = text.split(SEPARATOR)
        if len(sources) != len(self.cells):
            return None
        written, end = [], 0
        for cell, source in zip(self.cells, sources, strict=True):
            if source != cell.source:
                span, replaced = self._replaced(cell, source)
                written += [self.file_text[end : span.start], replaced]
                end = span.end
        return "".join([*written, self.file_text[end:]])

    def encoded(self, text: str) -> str:
        """A text as it is within a string of the file."""
        return dumps(text, ensure_ascii=self.file_text.isascii())[1:-1]

    def _replaced(self, cell: Cell, source: str) -> tuple[Span, str]:
        """What of the file changes with the source of a cell: in an array only the lines that are others."""
        if cell.node.kind != "array":
            before = _alike(cell.source, source)
            after = _alike(cell.source[before:][::-1], source[before:][::-1])
            inside = cell.node.span.start + 1
            places = Places([*_pieces(cell.node, self.file_text)])
            span = places.span(Span(before, len(cell.source) - after)) if cell.source else Span(inside, inside)
            return span, self.encoded(source[before : len(source) - after])
        old = ["".join(piece.text for piece in _pieces(item, self.file_text)) for item in cell.node.items]
        new = re.findall(r"[^\n]*\n|[^\n]+", source)
        before = _alike(old, new)
        after = _alike(old[before:][::-1], new[before:][::-1])
        if before + after in (len(old), len(new)):  # so that the commas are right, a neighbour is written again
            before, after = (before - 1, after) if before else (before, max(after - 1, 0))
        items = cell.node.items[before : len(old) - after]
        as_written = {
            line: self.file_text[item.span.start : item.span.end]
            for line, item in zip(old, cell.node.items, strict=True)
        }
        lines = [as_written.get(line) or f'"{self.encoded(line)}"' for line in new[before : len(new) - after]]
        span = (
            Span(items[0].span.start, items[-1].span.end)
            if items
            else Span(cell.node.span.start + 1, cell.node.span.end - 1)
        )
        return span, self._between(cell).join(lines)

    def _between(self, cell: Cell) -> str:
        """What is between two lines of a cell."""
        if len(cell.node.items) < 2:
            return _BETWEEN_LINES
        one, other = cell.node.items[:2]
        return self.file_text[one.span.end : other.span.start]


def shown_line(line: int, notebook: Notebook | None) -> str:
    """A line as texts show it, in a notebook with the cell: ``cell 3:2``."""
    if notebook is None:
        return str(line)
    cell, inside = notebook.cell_line(line)
    return f"cell {cell}:{inside}"


def _lines_of(source: Node) -> list[Node]:
    return source.items if source.kind == "array" else [source]


def _pieces(string: Node, text: str) -> Iterator[Part]:
    """The parts of what a string says, an escape for itself."""
    start, end = string.span.start + 1, string.span.end - 1
    for match in _ESCAPE.finditer(text, start, end):
        if start < match.start():
            yield Part(text[start : match.start()], Span(start, match.start()))
        yield Part(loads(f'"{match[0]}"'), Span(*match.span()), is_verbatim=False)
        start = match.end()
    if start < end:
        yield Part(text[start:end], Span(start, end))


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    """How many elements two sequences begin with that are the same."""
    for number, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return number
    return min(len(one), len(other))

"""What in a cell of a notebook is not Python: the magic of the whole cell, and lines with ``%``, ``!`` and ``?``."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

from ds_lint.source.python_syntax import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.notebook_cells import Notebook

_CELL_MAGIC = re.compile(r"\s*%%(\w+|!)[ \t]*([^\n]*)(?:\n|\Z)")
_OF_DATABRICKS = re.compile(r"\s*%(sh|md|sql|fs|scala|r)\b[ \t]*([^\n]*)(?:\n|\Z)")  # of the whole cell there
_WRITING = frozenset({"file", "writefile"})
_SHELLS = frozenset({"bash", "sh", "sx", "system", "!"})
_AROUND_PYTHON = frozenset({"capture", "prun", "time", "timeit"})  # these run the rest of the cell
_MAGIC_LINE = re.compile(
    r"^([ \t]*)(?:[%!?]|[^\n#'\"]*\?[ \t]*$|[\w., \t]+=[ \t]*[%!])(?:[^\n\\]|\\\n?)*", re.MULTILINE
)
_ASSIGNED = re.compile(r"[\w., \t]+=[ \t]*(?=[%!])")


class CellMagic(NamedTuple):
    """The magic of a cell: its name, the words behind it, and where the body starts in the source.

    ``writes`` is the file that the body becomes, as it is written, and ``is_added`` says that the body goes to its end.
    """

    name: str
    words: tuple[str, ...]
    body: int
    writes: str | None = None
    is_added: bool = False

    @property
    def is_shell(self) -> bool:
        """Whether a shell gets the body."""
        return self.name in _SHELLS


class MagicLine(NamedTuple):
    """A line that IPython reads before Python does: where it stands in the source, without what gets its value."""

    start: int
    text: str


def cell_magic(source: str) -> CellMagic | None:
    """The magic of a cell that takes the rest of it as its input; None for a cell of Python."""
    match = _CELL_MAGIC.match(source)
    if match is None:
        match = _OF_DATABRICKS.match(source)
        if match is None:
            return None
        is_one_line = bool(match[2].strip())
        body = match.start(2) if match[1] == "sh" and is_one_line else match.end()
        return CellMagic(match[1], (), body)
    name, words = match[1], match[2].split()
    if name in _AROUND_PYTHON:
        return None
    if name == "script" and words:
        name = words[0].rpartition("/")[2]
    is_file = name in _WRITING and words
    return CellMagic(
        name,
        tuple(words),
        match.end(),
        words[-1].strip("'\"") if is_file else None,
        bool(is_file) and not {"-a", "--append"}.isdisjoint(words),
    )


def python_of(notebook: Notebook) -> str:
    """The text of a notebook with nothing but its Python, at the same offsets."""
    masked = list(_blank(notebook.text))
    for cell in notebook.cells if notebook.is_python else ():
        if cell_magic(cell.source) is None:
            masked[cell.start : cell.start + len(cell.source)] = as_python(cell.source)
    return "".join(masked)


def as_python(source: str) -> str:
    """A cell without its magics, at the same offsets; blank if Python does not parse it."""
    python = parsed_python(source)
    return _blank(source) if python is None else python


def parsed_python(source: str) -> str | None:
    """The same; None if Python does not parse it."""
    for python in (_without_cell_magic(source), with_statements(source)):
        try:
            parsed(python)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return python
    return None


def with_statements(source: str) -> str:
    """A cell with a statement in the place of each line that is a magic, so that a block does not become empty."""
    return _MAGIC_LINE.sub(_as_statement, _without_cell_magic(source))


def magic_lines(source: str) -> Iterator[MagicLine]:
    """The lines of a cell that are magics; such as look like it within a string are none."""
    plain = _without_cell_magic(source)
    replaced = parsed_python(source)
    if replaced == plain:
        return
    starts = None if replaced is None else _statements(replaced)
    for match in _MAGIC_LINE.finditer(plain):
        start = match.end(1)
        line = plain.count("\n", 0, start) + 1
        if starts is not None and (line, len(match[1].encode())) not in starts:
            continue
        assigned = _ASSIGNED.match(match[0], len(match[1]))
        start = match.start() + assigned.end() if assigned is not None else start
        if plain[start] in "%!":
            yield MagicLine(start, plain[start : match.end()])


def _statements(python: str) -> set[tuple[int, int]]:
    """Where the statements are that stand for magics: lines from 1, columns from 0."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(parsed(python))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value == 0
    }


def _without_cell_magic(source: str) -> str:
    magic = _CELL_MAGIC.match(source)
    return source if magic is None else _blank(magic[0]) + source[magic.end() :]


def _as_statement(match: re.Match[str]) -> str:
    return match[1] + "0" + _blank(match[0])[len(match[1]) + 1 :]


def _blank(text: str) -> str:
    """A text with nothing but its line ends."""
    return re.sub(r"[^\n]", " ", text)

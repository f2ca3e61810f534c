"""The configs in the code cells of a notebook: in Python, and in cells that are a script or become a file."""

from __future__ import annotations

import re

from ds_lint.source import json as json_source
from ds_lint.source.document import Document, SyntaxIssue
from ds_lint.source.embedding import embedded
from ds_lint.source.languages import language_of
from ds_lint.source.notebook_format import read_notebook
from ds_lint.source.parts import Part, Places
from ds_lint.source.python_syntax import parsed
from ds_lint.source.recognition import is_config, looks_like_python, may_be_config
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.notebook_cells import Cell, Notebook

_CELL_MAGIC = re.compile(r"\s*%%(\w+)[ \t]*([^\n]*)(?:\n|\Z)")
_WRITING = frozenset({"file", "writefile"})
_SHELLS = frozenset({"bash", "sh"})
_AROUND_PYTHON = frozenset({"capture", "prun", "time", "timeit"})  # these run the rest of the cell
_MAGIC_LINE = re.compile(
    r"^([ \t]*)(?:[%!?]|[^\n#'\"]*\?[ \t]*$|[\w., \t]+=[ \t]*[%!])(?:[^\n\\]|\\\n?)*", re.MULTILINE
)


def read(text: str, path: str) -> list[Document]:
    """The configs in a notebook; none in any other text."""
    notebook = read_notebook(text)
    if notebook is None or not may_be_config(notebook.text.encode(errors="replace")):
        return []
    documents = [
        *_in_python(notebook, path),
        *(one for cell in notebook.cells for one in _in_cell(cell, notebook, path)),
    ]
    documents.sort(key=lambda document: document.root.span.start if document.root is not None else 0)
    for index, document in enumerate(documents):
        document.index, document.language = index, "notebook"
        document.text, document.notebook = notebook.text, notebook
    return documents


def unparsed(text: str, path: str) -> Document | None:
    """The cells of a notebook that have what looks like a config and that Python does not parse; None for none."""
    notebook = read_notebook(text)
    if notebook is None or not notebook.is_python or not may_be_config(notebook.text.encode(errors="replace")):
        return None
    issues = [issue for cell in notebook.cells if (issue := _issue_in(cell)) is not None]
    if not issues:
        return None
    document = Document(path, notebook.text, None, issues)
    document.language, document.is_python, document.is_dict, document.is_fragment = "notebook", True, True, True
    document.notebook = notebook
    document.comments = [span for cell in notebook.cells for span in _comments_in(cell)]
    return document


def _issue_in(cell: Cell) -> SyntaxIssue | None:
    """Why Python does not parse a cell that looks like it has a config."""
    if not (_is_python(cell.source) and may_be_config(cell.source.encode(errors="replace"))):
        return None
    if not looks_like_python(cell.source) or _parsed(cell.source) is not None:
        return None
    from ds_lint.source.python import syntax_error

    issue = syntax_error(_MAGIC_LINE.sub(_as_statement, _without_cell_magic(cell.source)))
    if issue is not None:
        issue.span = Span(cell.start + issue.span.start, cell.start + issue.span.end)
    return issue


def _comments_in(cell: Cell) -> Iterator[Span]:
    from ds_lint.source.python import comments

    for span in comments(cell.source) if _is_python(cell.source) else ():
        yield Span(cell.start + span.start, cell.start + span.end)


def _in_python(notebook: Notebook, path: str) -> list[Document]:
    """The configs in the cells that are Python, which know the names of those before them."""
    cells = [cell for cell in notebook.cells if _is_python(cell.source)]
    if not notebook.is_python or not any(may_be_config(cell.source.encode(errors="replace")) for cell in cells):
        return []
    from ds_lint.source.python import read as read_python

    masked = list(_blank(notebook.text))
    for cell in cells:
        masked[cell.start : cell.start + len(cell.source)] = _as_python(cell.source)
    documents = read_python("".join(masked), path)
    for document in documents:
        document.content = notebook.text
    return documents


def _blank(text: str) -> str:
    """A text with nothing but its line ends."""
    return re.sub(r"[^\n]", " ", text)


def _is_python(source: str) -> bool:
    """Whether a cell is not the input of a magic."""
    magic = _CELL_MAGIC.match(source)
    return magic is None or magic[1] in _AROUND_PYTHON


def _as_python(source: str) -> str:
    """A cell without its magics, at the same offsets; blank if Python does not parse it."""
    python = _parsed(source)
    return _blank(source) if python is None else python


def _parsed(source: str) -> str | None:
    """The same; None if Python does not parse it."""
    source = _without_cell_magic(source)
    for python in (source, _MAGIC_LINE.sub(_as_statement, source)):
        try:
            parsed(python)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return python
    return None


def _without_cell_magic(source: str) -> str:
    magic = _CELL_MAGIC.match(source)
    return source if magic is None else _blank(magic[0]) + source[magic.end() :]


def _as_statement(match: re.Match[str]) -> str:
    """A statement in the place of a magic, so that a block does not become empty."""
    return match[1] + "0" + _blank(match[0])[len(match[1]) + 1 :]


def _in_cell(cell: Cell, notebook: Notebook, path: str) -> Iterator[Document]:
    """The configs in what a cell writes into a file, or in its shell script."""
    magic = _CELL_MAGIC.match(cell.source)
    if magic is None:
        return
    start = cell.start + magic.end()
    places = Places([Part(cell.source[magic.end() :], Span(start, cell.start + len(cell.source)))])
    if not may_be_config(places.text.encode(errors="replace")):
        return
    words = magic[2].split()
    name = magic[1]
    if name == "script" and words:
        name = words[0].rpartition("/")[2]
    if name in _SHELLS:
        from ds_lint.source.shell import read as read_language
    elif name not in _WRITING or not words or "-a" in words or "--append" in words:
        return
    elif (language := language_of(words[-1].strip("'\""))) == "python":
        from ds_lint.source.python import read as read_language
    elif language == "shell":
        from ds_lint.source.shell import read as read_language
    else:
        read_language = _json
    for document in read_language(places.text, path):
        yield embedded(document, notebook.text, places)


def _json(text: str, path: str) -> list[Document]:
    """The config that a file becomes."""
    document = json_source.parse(text, path)
    return [document] if is_config(document) else []

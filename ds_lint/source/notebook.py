"""The configs in the code cells of a notebook: in Python, and in cells that are a script or become a file."""

from __future__ import annotations

from ds_lint.source import json as json_source
from ds_lint.source.document import Document, SyntaxIssue
from ds_lint.source.embedding import embedded
from ds_lint.source.languages import language_of
from ds_lint.source.notebook_format import read_notebook
from ds_lint.source.notebook_magics import cell_magic, parsed_python, python_of, with_statements
from ds_lint.source.parts import Part, Places
from ds_lint.source.recognition import is_config, looks_like_python, may_be_config
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.notebook_cells import Cell, Notebook
    from ds_lint.source.notebook_magics import CellMagic


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
    if not looks_like_python(cell.source) or parsed_python(cell.source) is not None:
        return None
    from ds_lint.source.python import syntax_error

    issue = syntax_error(with_statements(cell.source))
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

    documents = read_python(python_of(notebook), path)
    for document in documents:
        if document.places is None:  # else it is a text of its own
            document.content = notebook.text
    return documents


def _is_python(source: str) -> bool:
    """Whether a cell is not the input of a magic."""
    return cell_magic(source) is None


def _in_cell(cell: Cell, notebook: Notebook, path: str) -> Iterator[Document]:
    """The configs in what a cell writes into a file, or in its shell script."""
    magic = cell_magic(cell.source)
    if magic is None or magic.is_added:
        return
    places = Places([_body(cell, magic), *_added(magic, cell, notebook)])
    if not may_be_config(places.text.encode(errors="replace")):
        return
    if magic.is_shell:
        from ds_lint.source.shell import read as read_language
    elif magic.writes is None:
        return
    elif (language := language_of(magic.writes)) == "python":
        from ds_lint.source.python import read as read_language
    elif language == "shell":
        from ds_lint.source.shell import read as read_language
    elif language == "yaml":
        from ds_lint.source.yaml import read as read_language
    else:
        read_language = _json
    for document in read_language(places.text, path):
        yield embedded(document, notebook.text, places)


def _body(cell: Cell, magic: CellMagic) -> Part:
    return Part(cell.source[magic.body :], Span(cell.start + magic.body, cell.start + len(cell.source)))


def _added(first: CellMagic, cell: Cell, notebook: Notebook) -> Iterator[Part]:
    """What later cells add to the end of the file that a cell writes, until one writes it again."""
    if first.writes is None:
        return
    for other in notebook.cells:
        magic = cell_magic(other.source) if other.start > cell.start else None
        if magic is None or magic.writes != first.writes:
            continue
        if not magic.is_added:
            return
        yield _body(other, magic)


def _json(text: str, path: str) -> list[Document]:
    """The config that a file becomes."""
    document = json_source.parse(text, path)
    return [document] if is_config(document) else []

"""Where the project pins a library, as another place of a finding."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.source.document import Document
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.targets.pin import Pin


def related_pin(config: Config, pin: Pin) -> Iterator[Related]:
    """The place of a pin, if a file states it."""
    from ds_lint.targets.pin_location import place_of  # few pins clash

    if (place := place_of(pin)) is not None:
        path, text, start, end = place
        document, span = Document(path, text, None, []), Span(start, end)
        if path.endswith(".ipynb"):
            document, span = _in_notebook(pin, text, path) or (document, span)
        config.quoted.append(document)
        yield Related(span, f"pins {pin.library}", path)


def _in_notebook(pin: Pin, text: str, path: str) -> tuple[Document, Span] | None:
    """The line of a cell that installs a release, in the text of all cells."""
    from ds_lint.source.notebook_format import read_notebook

    notebook = read_notebook(text)
    cell, line = (int(number) for number in pin.places[0].within.removeprefix("cell ").split(":"))
    found = next((one for one in notebook.cells if one.number == cell), None) if notebook is not None else None
    if notebook is None or found is None:
        return None
    document = Document(path, notebook.text, None, [])
    document.notebook = notebook
    lines = found.source.splitlines(keepends=True)
    start = found.start + sum(map(len, lines[: line - 1]))
    return document, Span(start, start + len(lines[line - 1].rstrip()))

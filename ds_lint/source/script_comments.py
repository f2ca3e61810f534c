"""The comments of a script in which a launch or a call stands."""

from __future__ import annotations

from ds_lint.source import python
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.document import Document


def comments_of_script(document: Document) -> Iterator[Span]:
    """Where they are, whatever the language of the script: all have ``#``."""
    text = document.text
    if document.path.endswith(".py"):
        yield from python.comments(text)
        return
    end = 0
    for line in text.splitlines(keepends=True):
        start, end = end, end + len(line)
        mark = line.find("#")
        if mark == 0 or (mark > 0 and line[mark - 1].isspace()):  # ``$#`` and ``a#b`` begin none
            yield Span(start + mark, start + len(line.rstrip()))

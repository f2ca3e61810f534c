"""The comments of a text, one by one."""

from __future__ import annotations

from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.document import Document


def comments_of(document: Document) -> Iterator[Span]:
    """Where the comments are, each with its marks: those of the language of the file, else those that hjson skips."""
    if document.comments is not None:
        yield from document.comments
        return
    for issue in document.issues:
        if issue.kind == "comment":
            yield from _apart(document.text, issue.span)  # the reader has found a row of them as one


def comments_of_script(document: Document) -> Iterator[Span]:
    """The comments of a script in which a launch or a call stands, of whatever language: all have ``#``."""
    text = document.text
    if document.path.endswith(".py"):
        from ds_lint.source import python

        yield from python.comments(text)
        return
    end = 0
    for line in text.splitlines(keepends=True):
        start, end = end, end + len(line)
        mark = line.find("#")
        if mark == 0 or (mark > 0 and line[mark - 1].isspace()):  # ``$#`` and ``a#b`` begin none
            yield Span(start + mark, start + len(line.rstrip()))


def _apart(text: str, row: Span) -> Iterator[Span]:
    """The comments of a row, between which there is white space, or the beginning of a comment without an end."""
    start = row.start
    while start < row.end:
        if text.startswith(("#", "//"), start):
            end = text.find("\n", start, row.end)
            end = row.end if end == -1 else end - (text[end - 1] == "\r")
        elif text.startswith("/*", start) and (close := text.find("*/", start + 2)) != -1:
            end = close + 2
        else:
            start += 1
            continue
        yield Span(start, end)
        start = end

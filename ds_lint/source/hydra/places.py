"""The files of a composed config as one text, so that each value keeps its place in the file that it comes from."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Node


class NotComposedError(Exception):
    """A config that is not read here as Hydra reads it, or that it rejects."""


class TextPart(NamedTuple):
    """A file, from an offset of the whole text on."""

    start: int
    document: Document


class SourceTexts:
    """The files, each behind those before it."""

    def __init__(self) -> None:
        self.parts: list[TextPart] = []
        self._end = 0

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join(one.document.text for one in self.parts)

    def start_of(self, document: Document) -> int:
        """The offset of the text of a file, which is added if it is new."""
        for part in self.parts:
            if part.document.path == document.path:
                return part.start
        start = self._end
        self.parts.append(TextPart(start, document))
        self._end += len(document.text) + 1
        return start

    def part_at(self, offset: int) -> TextPart:
        """The file that an offset is in."""
        return next(one for one in reversed(self.parts) if one.start <= offset)

    def place(self, span: Span) -> tuple[Document, Span]:
        """The file and the range there of a range of the whole text; one over several files is in the first."""
        part = self.part_at(span.start)
        length = len(part.document.text)
        start = min(span.start - part.start, length)
        return part.document, Span(start, max(start, min(span.end - part.start, length)))


def moved(node: Node, start: int, seen: set[int] | None = None) -> Node:
    """A tree of a file with the offsets of the whole text; it is changed, and an alias only once."""
    seen = set() if seen is None else seen
    pending = [node]
    while pending:
        one = pending.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.span = Span(one.span.start + start, one.span.end + start)
        for member in one.members:
            if id(member) not in seen:
                seen.add(id(member))
                member.key_span = Span(member.key_span.start + start, member.key_span.end + start)
            pending.append(member.value)
        pending += one.items
    return node

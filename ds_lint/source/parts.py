"""Where the parts of a text that is put together are in the file: of the JSON that a heredoc becomes, or of a block.

A part is verbatim, or stands in for something else in the file (``8`` for ``$MICRO_BATCH``). Then every place in it is
the whole of what is written instead.
"""

from __future__ import annotations

from bisect import bisect_right

from ds_lint.record import Record
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from dataclasses import KW_ONLY

    from ds_lint.source.tree import Node


class Part(Record):
    """A piece of the text, and where it is in the file.

    ``is_verbatim`` tells that it is written there; what is not ``is_known`` is a placeholder in the text.
    """

    text: str
    span: Span
    _: KW_ONLY
    is_verbatim: bool = True
    is_known: bool = True


class Places:
    """From offsets in a text to spans in the file."""

    __slots__ = ("_outer", "_parts", "_starts", "stand_ins", "text", "unknown")

    def __init__(self, parts: Iterable[Part]) -> None:
        parts = list(parts)
        self.stand_ins = [part.span for part in parts if not part.is_verbatim]  # what is not in the text
        self.unknown = [part.span for part in parts if not part.is_known]
        self._parts = [part for part in parts if part.text]
        self._starts: list[int] = []
        self._outer: Places | None = None  # the file is itself a part of another one
        length = 0
        for part in self._parts:
            self._starts.append(length)
            length += len(part.text)
        self.text = "".join(part.text for part in self._parts)

    def within(self, outer: Places) -> Places:
        """The same places in the file that ``outer`` takes its text from."""
        places = Places(self._parts)
        places._outer = outer if self._outer is None else self._outer.within(outer)
        return places

    def span(self, span: Span) -> Span:
        """A range of the text as one of the file; an empty one is behind what is before it."""
        if not self._parts:
            return Span(0, 0)
        end = self._end(span.end)
        found = Span(end if span.start >= span.end else self._start(span.start), end)
        return self._outer.span(found) if self._outer is not None else found

    def _start(self, offset: int) -> int:
        index = bisect_right(self._starts, offset) - 1
        part = self._parts[index]
        return part.span.start + (offset - self._starts[index] if part.is_verbatim else 0)

    def _end(self, offset: int) -> int:
        if offset <= 0:
            return self._parts[0].span.start
        index = bisect_right(self._starts, offset - 1) - 1
        part = self._parts[index]
        return part.span.start + offset - self._starts[index] if part.is_verbatim else part.span.end


def in_place(root: Node, places: Places) -> Node:
    """A tree of a text that is put together, with the spans in the file."""
    pending = [root]
    while pending:  # a loop, not recursion: a document may nest deeper than Python's stack
        node = pending.pop()
        node.span = places.span(node.span)
        for member in node.members:
            member.key_span = places.span(member.key_span)
            pending.append(member.value)
        pending += node.items
    return root

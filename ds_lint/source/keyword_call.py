"""A call in a script of a class of which it is known what keywords each release takes."""

from __future__ import annotations

import re

from ds_lint.source.document import CALLED, SyntaxIssue
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class KeywordCall(SyntaxIssue):
    """``found`` is the class as the script has it, ``roots`` the classes of libraries that make it, by full names.

    ``own`` are the fields that classes of the project add. ``keywords`` are those of the call, each with its place;
    ``unpacked`` are those among them that a dict brings, whose place is that of the dict.
    """

    __slots__ = ("keywords", "own", "roots", "unpacked")

    def __init__(
        self,
        span: Span,
        name: str,
        roots: tuple[str, ...],
        own: frozenset[str],
        keywords: Iterable[tuple[str, Span]],
        unpacked: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(CALLED, span, name)
        self.roots = roots
        self.own = own
        self.keywords = tuple(keywords)
        self.unpacked = unpacked

    def within(self, before: str, after: str) -> KeywordCall:
        """The same call in a changed text, without the keywords that are no longer in it."""
        first = _alike(before, after)
        last = _alike(before[first:][::-1], after[first:][::-1])
        moved = len(after) - len(before)
        kept: list[tuple[str, Span]] = []
        position = first
        for name, span in self.keywords:
            if span.end <= first:
                kept.append((name, span))
            elif span.start >= len(before) - last:
                kept.append((name, Span(span.start + moved, span.end + moved)))
            elif found := re.compile(rf"\b{re.escape(before[span.start : span.end])}\b").search(
                after, position, max(position, len(after) - last)
            ):
                position = found.end()
                kept.append((name, Span(*found.span())))
        return KeywordCall(self.span, self.found, self.roots, self.own, kept, self.unpacked)


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)

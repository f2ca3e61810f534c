"""Where the words of a text are after it has been changed."""

from __future__ import annotations

import re

from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def moved(named: Iterable[tuple[str, Span]], before: str, after: str) -> list[tuple[str, Span]]:
    """The names at their places in the changed text, in the order of the text, without those that are gone."""
    first = _alike(before, after)
    last = _alike(before[first:][::-1], after[first:][::-1])
    by = len(after) - len(before)
    kept: list[tuple[str, Span]] = []
    position = first
    for name, span in named:
        if span.end <= first:
            kept.append((name, span))
        elif span.start >= len(before) - last:
            kept.append((name, Span(span.start + by, span.end + by)))
        else:
            word = re.compile(rf"(?<![\w-]){re.escape(before[span.start : span.end])}(?![\w-])")
            if found := word.search(after, position, max(position, len(after) - last)):
                position = found.end()
                kept.append((name, Span(*found.span())))
    return kept


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    shorter = min(len(one), len(other))
    return next((at for at in range(shorter) if one[at] != other[at]), shorter)

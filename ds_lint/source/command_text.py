"""Where the words of a command are in the text of a script."""

from __future__ import annotations

from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re


def span_in_command(text: str, line: int, word: re.Pattern[str]) -> Span:
    """The place of a word in a command that begins at a line, or before it; the command if it is in none.

    A pattern with a group is about the group.
    """
    starts = [0]
    for one in text.split("\n"):
        starts.append(starts[-1] + len(one) + 1)
    start = starts[min(line - 1, len(starts) - 2)]
    end, number = start, line - 1
    while number < len(starts) - 1:
        end = starts[number + 1] - 1
        number += 1
        if not text[:end].rstrip(" \t").endswith(("\\", ",", "[", "(")):
            break
    found = word.search(text, start, end)
    if found is None:
        others = list(word.finditer(text))
        before = [one for one in others if one.start() < start]
        found = before[-1] if before else others[0] if others else None
    return Span(*found.span(word.groups)) if found is not None else Span(start, max(end, start))

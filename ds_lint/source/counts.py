"""How many of something a text asks for: processes, nodes, GPUs, tokens."""

from __future__ import annotations

_MOST_DIGITS = 12  # more than any cluster has of anything; a number of thousands of digits is an error in int() itself


def count(text: str | None) -> int | None:
    """The number that a text of decimal digits is; None for any other text, such as ``²``, which ``isdigit`` takes."""
    if text is None or not text.isdecimal() or len(text) > _MOST_DIGITS:
        return None
    return int(text)

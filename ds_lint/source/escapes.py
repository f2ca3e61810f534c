"""The escapes in a JSON string; few configs have one."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescape(raw: str) -> str:
    """What the inside of a JSON string stands for; every escape in it must be a valid one."""
    return re.sub(r"\\(?:u([dD][89abAB]..)\\u([dD][c-fC-F]..)|u(....)|(.))", _unescape_one, raw)


def _unescape_one(escape: Match[str]) -> str:
    high, low, unit, letter = escape.groups()
    if letter:
        return _ESCAPES[letter]
    if unit:
        return chr(int(unit, 16))
    return chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00)

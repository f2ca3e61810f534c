"""The shell's patterns on known text: ``case``, ``[[ == ]]`` and ``${NAME#pattern}``.

They are matched in a time that grows with text times pattern, whatever the pattern is.
"""

from __future__ import annotations

from typing import NamedTuple


class _PatternPart(NamedTuple):
    """One place of a pattern: ``*``, or a character out of ``characters`` (any if None), or none of them."""

    is_star: bool = False
    characters: str | None = None
    is_negated: bool = False

    def takes(self, char: str) -> bool:
        return self.characters is None or (char in self.characters) != self.is_negated


def matches(text: str, pattern: str) -> bool:
    """Whether a pattern matches a whole text."""
    return len(text) in _ends(text, 0, _tokens(pattern))


def without_prefix(text: str, pattern: str, *, longest: bool) -> str:
    """``${NAME#pattern}``, or ``##``."""
    ends = _ends(text, 0, _tokens(pattern))
    return text[(max if longest else min)(ends, default=0) :]


def without_suffix(text: str, pattern: str, *, longest: bool) -> str:
    """``${NAME%pattern}``, or ``%%``."""
    tokens = _tokens(pattern)
    starts = [start for start in range(len(text) + 1) if len(text) in _ends(text, start, tokens)]
    return text[: (min if longest else max)(starts, default=len(text))]


def replaced(text: str, pattern: str, replacement: str) -> str:
    """``${NAME/pattern/replacement}``; a pattern that begins with ``/``, ``#`` or ``%`` is everywhere or at an end."""
    where, body = (pattern[0], pattern[1:]) if pattern[:1] in ("/", "#", "%") else ("", pattern)
    tokens = _tokens(body)
    if where == "#" and not tokens:
        return replacement + text
    if where == "%":
        starts = [start for start in range(len(text) + 1) if len(text) in _ends(text, start, tokens)]
        return text[: starts[0]] + replacement if starts else text
    found, position = list[str](), 0
    while position < len(text):
        end = max(_ends(text, position, tokens), default=position)
        if end > position:
            found.append(replacement)
            position = end
            if where != "/":
                break
        elif where == "#":
            break
        else:
            found.append(text[position])
            position += 1
    return "".join(found) + text[position:]


def _ends(text: str, start: int, tokens: list[_PatternPart]) -> set[int]:
    """Where a pattern that begins at a place may end."""
    at = _behind_stars({0}, tokens)
    ends = {start} if len(tokens) in at else set()
    for position in range(start, len(text)):
        char = text[position]
        following = {index for index in at if index < len(tokens) and tokens[index].is_star}
        following |= {
            index + 1 for index in at if index < len(tokens) and not tokens[index].is_star and tokens[index].takes(char)
        }
        at = _behind_stars(following, tokens)
        if not at:
            break
        if len(tokens) in at:
            ends.add(position + 1)
    return ends


def _behind_stars(at: set[int], tokens: list[_PatternPart]) -> set[int]:
    found = set(at)
    for index in at:
        following = index
        while following < len(tokens) and tokens[following].is_star:
            following += 1
            found.add(following)
    return found


def _tokens(pattern: str) -> list[_PatternPart]:
    tokens, position = list[_PatternPart](), 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "*":
            tokens.append(_PatternPart(is_star=True))
        elif char == "?":
            tokens.append(_PatternPart())
        elif (
            char == "["
            and (end := pattern.find("]", position + (2 if pattern[position : position + 1] in "!^" else 1))) > 0
        ):
            inside = pattern[position:end]
            negated = inside[:1] in ("!", "^")
            tokens.append(_PatternPart(characters=_ranges(inside[1:] if negated else inside), is_negated=negated))
            position = end + 1
        else:
            if char == "\\" and position < len(pattern):
                char = pattern[position]
                position += 1
            tokens.append(_PatternPart(characters=char))
    return tokens


_CLASSES = {
    "[:digit:": "0123456789",
    "[:space:": " \t\n\r\f\v",
    "[:blank:": " \t",
    "[:lower:": "abcdefghijklmnopqrstuvwxyz",
    "[:upper:": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
}


def _ranges(inside: str) -> str:
    if inside in _CLASSES:
        return _CLASSES[inside]
    found, position = "", 0
    while position < len(inside):
        if inside[position + 1 : position + 2] == "-" and position + 2 < len(inside):
            first, last = ord(inside[position]), ord(inside[position + 2])
            found += "".join(map(chr, range(first, min(last, first + 255) + 1)))
            position += 3
        else:
            found += inside[position]
            position += 1
    return found

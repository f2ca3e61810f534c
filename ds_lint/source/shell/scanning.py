"""Where quotes, expansions and words end in the text of a script."""

from __future__ import annotations

import re

_CLOSING = {"(": ")", "{": "}"}
_PLAIN = re.compile(r"[\w .,:/=#+-]+")  # what neither opens nor closes anything


def end_of_single(text: str, start: int) -> int:
    """Behind the quote that closes ``'``; ``start`` is behind the one that opens."""
    end = text.find("'", start)
    return len(text) if end < 0 else end + 1


def end_of_escaped(text: str, start: int, closer: str) -> int:
    """Behind an unescaped character, such as that which closes ``$'`` or a backquote."""
    position = start
    while position < len(text) and text[position] != closer:
        position += 2 if text[position] == "\\" else 1
    return min(position + 1, len(text))


def end_of_double(text: str, start: int) -> int:
    """Behind the quote that closes ``"``."""
    position = start
    while position < len(text) and text[position] != '"':
        position = step(text, position, in_quotes=True)
    return min(position + 1, len(text))


def end_of_bracket(text: str, start: int, opener: str) -> int:
    """Behind the bracket that closes ``opener``, which is before ``start``."""
    plain = _PLAIN.match(text, start)
    closer, depth, position = _CLOSING[opener], 1, plain.end() if plain is not None else start
    while position < len(text):
        char = text[position]
        if char == closer:
            depth -= 1
            if depth == 0:
                return position + 1
        elif char == opener:
            depth += 1
        position = step(text, position)
    return len(text)


def raw_words(text: str, *, has_comments: bool = False) -> list[str]:
    """A text cut at its blanks, as the shell cuts a command; quotes and expansions stay as they are written."""
    words, start, position = list[str](), 0, 0
    while position < len(text):
        if has_comments and position == start and text[position] == "#":
            end = text.find("\n", position)
            position = start = len(text) if end < 0 else end
        elif text[position] in " \t\n" or text.startswith("\\\n", position):
            if position > start:
                words.append(text[start:position])
            position += 2 if text[position] == "\\" else 1
            start = position
        elif text.startswith("=(", position):
            position = end_of_bracket(text, position + 2, "(")
        else:
            position = step(text, position)
    if position > start:
        words.append(text[start:])
    return words


def step(text: str, position: int, *, in_quotes: bool = False) -> int:
    """Behind the character, quote or expansion at a place."""
    char = text[position]
    if char == "\\":
        return min(position + 2, len(text))
    if char == "$" and text[position + 1 : position + 2] in ("(", "{"):
        return end_of_bracket(text, position + 2, text[position + 1])
    if char == "`":
        return end_of_escaped(text, position + 1, "`")
    if in_quotes:
        return position + 1
    if char == "$" and text.startswith("'", position + 1):
        return end_of_escaped(text, position + 2, "'")
    if char == "'":
        return end_of_single(text, position + 1)
    if char == '"':
        return end_of_double(text, position + 1)
    return position + 1

"""Text for people: what is shown of a user's characters, how many columns it takes, and where it wraps."""

from __future__ import annotations

import os

from ds_lint.targets.text import shown

NO_WIDTH = ("Mn", "Me")  # combining marks are on the character before them


def visible(text: str) -> str:
    """``text`` with everything that a terminal would act on, or not show, written as ``<U+001B>``.

    A config may come from anywhere: an escape sequence in it must not reach the terminal, a bidirectional override must
    not turn a line around, and a no-break space that breaks the JSON should be seen. Lone surrogates cannot be encoded.
    """
    if text.isprintable():
        return text
    return "".join(visible_character(character) for character in text)


def visible_character(character: str) -> str:
    """One character as it is shown."""
    return character if character.isprintable() else f"<U+{ord(character):04X}>"


def width_of(text: str) -> int:
    """The columns that printable text takes in a terminal."""
    if text.isascii():
        return len(text)
    from unicodedata import category, east_asian_width

    return sum(0 if category(c) in NO_WIDTH else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def wrap(text: str, width: int | None, taken: int, indent: int) -> list[str]:
    """``text`` in lines that fit, broken at spaces; a word that is longer than a line stays whole.

    ``taken`` columns of the first line are in use already; the lines after it begin with ``indent`` spaces.
    """
    if width is None:
        return [text]
    lines: list[str] = []
    words: list[str] = []
    column = taken
    for word in text.split(" "):
        length = width_of(word)
        if words and column + 1 + length > width:
            lines.append(" ".join(words))
            words = [" " * indent + word]
            column = indent + length
        else:
            column += length + (1 if words else 0)
            words.append(word)
    return [*lines, " ".join(words)]


def shown_path(path: str) -> str:
    """A path as people read it: from the working directory, if it lies below, and without what cannot be shown."""
    return visible(shown(path))


def slashed(path: str, separator: str = os.sep) -> str:
    """A path as programs on every system read it."""
    return path if separator == "/" else path.replace(separator, "/")


def counted(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {plural(number, noun)}"


def plural(number: int, noun: str) -> str:
    """The noun behind a number; ``info`` has no plural."""
    return noun if number == 1 or noun == "info" else f"{noun}s"

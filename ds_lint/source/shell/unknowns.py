"""Text of which a part is unknown: each unknown part is one character that no script holds.

So the shell's operations on text work on both kinds, and what depends on an unknown part is found by its character.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_FIRST, _LAST = 0xF0000, 0xFFFFD  # Unicode's first private plane
_POSITIONAL = re.compile(r"\$(?:[1-9]\d*|[@*])")
_MARK = re.compile("[\U000f0000-\U000ffffd]")


class UnknownPart(NamedTuple):
    """What is not known: ``name`` is the variable or the kind of expansion.

    ``path`` is the place in the project that it stands for, such as the folder of the script for ``$(dirname $0)``.
    """

    name: str
    path: str | None = None


class Unknowns:
    """The unknown parts of the texts of one script."""

    def __init__(self) -> None:
        self._characters: dict[UnknownPart, str] = {}
        self._unknowns: list[UnknownPart] = []

    def mark(self, name: str, path: str | None = None) -> str:
        """The character that stands for an unknown part."""
        unknown = UnknownPart(name, path)
        if unknown not in self._characters:
            if len(self._unknowns) > _LAST - _FIRST:
                return chr(_LAST)
            self._characters[unknown] = chr(_FIRST + len(self._unknowns))
            self._unknowns.append(unknown)
        return self._characters[unknown]

    def of(self, text: str) -> list[UnknownPart]:
        """The unknown parts of a text, in its order."""
        return [self._unknowns[ord(found) - _FIRST] for found in _MARK.findall(text)]

    def without_call(self, text: str) -> str:
        """A text as it is in a script that is called without words."""
        for unknown in self.of(text):
            if unknown.name == "#@":
                text = text.replace(self._characters[unknown], "0")
            elif _POSITIONAL.fullmatch(unknown.name):
                text = text.replace(self._characters[unknown], "")
        return text

    def path(self, text: str) -> str | None:
        """A text with its places in the project written out; None if another part is unknown."""
        path = text
        for unknown in self.of(text):
            if unknown.path is None:
                return None
            path = path.replace(self._characters[unknown], unknown.path)
        return path


class StandIns:
    """Characters for what another language puts into a text for the shell, each with a name for it."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def add(self, name: str) -> str:
        """The character that stands for something unknown."""
        character = chr(min(_FIRST_STAND_IN + len(self.names), _LAST_STAND_IN))
        self.names[character] = name
        return character


_FIRST_STAND_IN, _LAST_STAND_IN = 0x100000, 0x10FFFD  # Unicode's second private plane


def is_known(text: str) -> bool:
    """Whether no part of a text is unknown."""
    return _MARK.search(text) is None


def around_marks(text: str) -> tuple[str, str]:
    """What is known of a text before its first unknown part and behind its last."""
    parts = _MARK.split(text)
    return parts[0], parts[-1]


def without_marks(text: str) -> str:
    """A script in which no character is one that stands for an unknown part."""
    return _MARK.sub("\ufffd", text)

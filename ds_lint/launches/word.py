"""What a command is made of: its words, as the shell hands them over."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

Word: TypeAlias = "str | None"  # None where the shell's word is not known
Argument: TypeAlias = "Literal[True] | Word | list[Word]"  # what stands behind a flag; True if nothing does

_OPTION = re.compile(r"(-{1,2}[A-Za-z][\w-]*)=")
_PAIR = re.compile(r"([A-Za-z_][\w.]*)=")
_ALL_WORDS = ("$@", "$*")
_NUMBERS = ("$((", "#")


class UnknownWord(NamedTuple):
    """A word of which a part is unknown: ``names`` is what that depends on, ``start`` and ``end`` are around it.

    ``is_value`` says that an option stands before it and ``=`` between them.
    """

    names: tuple[str, ...]
    start: str = ""
    end: str = ""
    is_value: bool = False

    @property
    def holds_options(self) -> bool:
        """Whether it may be options: not if it begins as no option does, or if it is a number."""
        if self.is_value or (self.start and not self.start.startswith("-")):
            return False
        return not all(name.startswith(_NUMBERS) for name in self.names)

    @property
    def may_be_several(self) -> bool:
        """Whether it is a list of words, as many as the script is called with."""
        return any(name in _ALL_WORDS for name in self.names)

    @property
    def sets(self) -> str | None:
        """The name before the sign of ``name=$VALUE``."""
        match = _PAIR.match(self.start)
        return match[1] if match else None

    @property
    def is_path(self) -> bool:
        """Whether it is the path of a script, and no option, such as ``$HERE/train.py``."""
        return not self.start.startswith("-") and self.end.endswith(".py")

    def cut(self) -> tuple[str, UnknownWord] | None:
        """The option and the value of ``--option=$VALUE``; None for any other word."""
        match = _OPTION.match(self.start)
        if match is None:
            return None
        return match[1], self._replace(start=self.start[match.end() :], is_value=True)


class LooseWord(NamedTuple):
    """An unknown word that may be options. ``behind`` is the option that it may be the value of, if it takes one.

    ``sets`` is the name in ``name=$VALUE``, which sets a field of a recipe.
    """

    names: tuple[str, ...]
    behind: str | None
    sets: str | None = None

    def is_value(self, takes: Mapping[str, str]) -> bool:
        """Whether it cannot be an option, because one of these, each with its number of values, takes it."""
        return self.sets is not None or (self.behind is not None and takes.get(self.behind, "0") not in ("0", "?"))


def shown_name(name: str) -> str:
    """What is not known, as the shell writes it."""
    return f"${name}" if name.isidentifier() else name

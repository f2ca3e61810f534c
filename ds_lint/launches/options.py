"""The options of a launcher, as argparse takes them from its words."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from ds_lint.knowledge import tables

if TYPE_CHECKING:
    from ds_lint.launches.word import Argument, Word


class Parsed(NamedTuple):
    """A launcher's own options without dashes before them, and the words behind: the program and its flags."""

    options: dict[str, Word]
    rest: list[Word]
    is_complete: bool = True  # no word before the program is unknown, so that it may be an option

    def number(self, *names: str) -> int | None:
        """The number that the last of these options gives."""
        value = next((self.options[name] for name in names if name in self.options), None)
        return int(value) if value is not None and value.isdigit() else None

    def option(self, name: str) -> Word:
        """The value of an option; None if it is not given, or not known."""
        return self.options.get(name)

    def has(self, *names: str) -> bool:
        """Whether one of these options is given."""
        return any(name in self.options for name in names)


@cache
def _takes(launcher: str) -> dict[str, str]:
    """How many words each option takes, from ``schemas/launchers.json``."""
    return tables.load("launchers")[launcher]["options"]


def parsed(launcher: str, words: list[Word]) -> Parsed:
    """The options before the program. A word that is not known may be options, and is passed over."""
    takes = _takes(launcher)
    options: dict[str, Word] = {}
    left, is_complete = list(words), True
    while left and (left[0] is None or left[0].startswith("-")):
        word = left.pop(0)
        if word is None:
            is_complete = False
            continue
        if word == "--":
            break
        name, sign, value = word.partition("=")
        known = _full_name(name, takes)
        key = known.lstrip("-").replace("-", "_")
        if sign:
            options[key] = value
        elif takes.get(known) == "0":
            options[key] = ""
        else:
            options[key] = left.pop(0) if left else None
    return Parsed(options, left, is_complete)


def _full_name(name: str, takes: dict[str, str]) -> str:
    """An option that is abbreviated, as argparse allows it."""
    if name in takes or not name.startswith("--"):
        return name
    longer = {one for one in takes if one.startswith(name)}
    return longer.pop() if len(longer) == 1 else name


def arguments(words: list[Word]) -> dict[str, Argument]:
    """The flags of a program: a bare flag is true, several values are a list."""
    found: dict[str, Argument] = {}
    name: str | None = None
    for word in words:
        if word is not None and is_flag(word):
            name, sign, value = word.partition("=")
            name = name.lstrip("-").replace("-", "_")
            _add(found, name, value if sign else True)
            name = None if sign else name
        elif name is not None:
            _add(found, name, word)
    return found


def is_flag(word: str) -> bool:
    """Whether a word is the name of a flag, and not a negative number."""
    return word.startswith("-") and len(word.lstrip("-")) > 0 and not word[1].isdigit() and word[1] != "."


def _add(found: dict[str, Argument], name: str, value: Literal[True] | Word) -> None:
    before = found.get(name)
    if name not in found or before is True:
        found[name] = value
    elif value is True:
        return
    elif isinstance(before, list):
        before.append(value)
    else:
        found[name] = [before if isinstance(before, str) else None, value]

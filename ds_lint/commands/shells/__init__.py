"""Scripts that let a shell complete the command line, one file a shell, from the parser.

Nothing about the options of ds-lint is written here: ``commands/completion.py`` asks the parser, so that a script can
not lag behind it.
"""

from __future__ import annotations

from typing import NamedTuple

FILES = "files"
FOLDERS = "folders"
ANYTHING = "anything"  # a value that cannot be completed


class Words(NamedTuple):
    """A list of words, under a name for the script; ``is_list`` if commas may join several."""

    name: str
    words: tuple[tuple[str, str], ...]  # each with what it means, or nothing
    is_list: bool = False


Taken = Words | str  # FILES, FOLDERS or ANYTHING


class CompletedOption(NamedTuple):
    """An option by its names; ``takes`` is None if it takes no value."""

    names: tuple[str, ...]
    help: str
    takes: Taken | None


class CompletedCommand(NamedTuple):
    """A subcommand, and what it takes besides its options; None if nothing."""

    name: str
    help: str
    options: tuple[CompletedOption, ...]
    takes: Taken | None


def all_words(commands: list[CompletedCommand]) -> list[Words]:
    """The lists of words that the commands need, each once."""
    taken = [command.takes for command in commands]
    taken += [option.takes for command in commands for option in command.options]
    return list(dict.fromkeys(one for one in taken if isinstance(one, Words)))


def quoted(text: str) -> str:
    """A text in single quotes, as all three shells take it but for one that holds such a quote."""
    return "'" + text.replace("'", "'\\''") + "'"

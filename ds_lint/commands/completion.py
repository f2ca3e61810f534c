"""``ds-lint completion``: a script that lets a shell complete the command line."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ds_lint.commands.shells import ANYTHING, FILES, FOLDERS, CompletedCommand, CompletedOption, Words, bash, fish, zsh
from ds_lint.knowledge import keys, tables
from ds_lint.knowledge.advisories import advisories
from ds_lint.knowledge.advisory_words import title
from ds_lint.linter.engine import every_rule
from ds_lint.linter.selection import ALL
from ds_lint.source.tree import dotted
from ds_lint.targets.pin import LIBRARIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.commands.shells import Taken
    from ds_lint.commands.usage import Parser

SHELLS = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}

# What an option takes, by the word that its help has for it.
_BY_METAVAR = {
    "FILE": FILES, "PATH": FILES, "OTHER": FILES, "FILE|FLAGS": FILES, "CONFIG|LAUNCH": FILES, "DIR": FOLDERS,
    "NAME|FOLDER": FOLDERS, "LOG|CONFIG|PROJECT": FILES, "KEY=VALUE|FILE": FILES,
}  # fmt: skip


def completion(shell: str, parser: Parser) -> int:
    """Print the script of a shell."""
    sys.stdout.write(SHELLS[shell](commands(parser)))
    return 0


def commands(parser: Parser) -> list[CompletedCommand]:
    """The subcommands of the parser."""
    (named,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))  # noqa: SLF001 - argparse has no public way to ask
    helps = {action.dest: action.help or "" for action in named._choices_actions}  # noqa: SLF001
    return [_command(name, helps[name], each) for name, each in named.choices.items() if name in helps]


def _command(name: str, text: str, parser: Parser) -> CompletedCommand:
    shown = [action for action in parser._actions if action.help is not argparse.SUPPRESS]  # noqa: SLF001
    options = [action for action in shown if action.option_strings]
    words = next((action for action in shown if not action.option_strings), None)
    return CompletedCommand(
        name,
        text,
        tuple(_option(action, name) for action in options),
        _taken(words, name) if words is not None else None,
    )


def _option(action: argparse.Action, command: str) -> CompletedOption:
    text = (action.help or "").replace("%%", "%")
    return CompletedOption(tuple(action.option_strings), text, None if action.nargs == 0 else _taken(action, command))


def _taken(action: argparse.Action, command: str) -> Taken:
    metavar = str(action.metavar or "")
    if action.choices is not None:
        name = f"{command}_{action.dest}".replace("-", "_")  # a variable of the shell
        return _words(name, map(str, action.choices))
    if metavar == "RULES":
        return Words("rules", (*_rules(), (ALL, "every rule")), is_list=True)
    if metavar == "CODE|NAME|ID|KEY.PATH|TEXT":
        return Words("subjects", (*_rules(), *_advisories(), *_keys()))
    if metavar == "ID|PATH":
        return Words("advisories", tuple(_advisories()))
    library = action.dest.partition("_")[0]
    if metavar == "V" and library in LIBRARIES:
        return _words(f"{library}_releases", reversed(tables.load(library)["releases"]))
    if action.dest == "gpu":
        return _words("gpus", (name.replace(" ", "-") for name in tables.load("gpus")["gpus"]))
    return _BY_METAVAR.get(metavar, ANYTHING)


def _words(name: str, words: Iterable[str]) -> Words:
    return Words(name, tuple((word, "") for word in words))


def _advisories() -> Iterator[tuple[str, str]]:
    for id_, record in advisories().items():
        yield id_, title(record)


def _rules() -> tuple[tuple[str, str], ...]:
    rules = every_rule()
    return (*((rule.code, rule.name) for rule in rules), *((rule.name, rule.code) for rule in rules))


def _keys() -> tuple[tuple[str, str], ...]:
    paths = dict.fromkeys(dotted(key.path) for key in keys.knowledge().everywhere())
    return tuple((path, "key") for path in paths if path and "*" not in path)

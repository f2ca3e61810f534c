"""What is wrong with a command line, in one line, and what was meant."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from ds_lint.commands import environment
from ds_lint.output.harmless import complaint
from ds_lint.output.terminal import USUAL_WIDTH, terminal_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


_MOST = 5  # options of which one is meant


class Parser(argparse.ArgumentParser):
    """A parser that prints what is wrong in one line, with the word that was probably meant."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, allow_abbrev=False)  # else a new option would change what an old script means

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(2, complaint(f"{message.removeprefix('argument ')} (see {self.prog} --help)"))

    def parse_known_args(  # type: ignore[override]  # without the type of a namespace of the caller
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """The options and the words that are left; an unknown option is an error of this parser."""
        options, left = super().parse_known_args(args, namespace)
        for word in left[: left.index("--")] if "--" in left else left:
            if word.startswith("-") and word != "-":
                name = word.partition("=")[0]
                self.error(f"unknown option {name}{self._hint(name)}")
        if "--isolated" in self._option_string_actions:  # a command that reads settings
            self._fill(options)
        return options, left

    def _hint(self, name: str) -> str:
        """What was probably meant by an unknown option: what it is the beginning of, or what is close to it."""
        names = list(self._option_string_actions)
        begun = [one for one in names if len(name) > len("--") and one.startswith(name)]
        if 0 < len(begun) <= _MOST:
            *others, last = begun
            return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?"
        return hint(name, names)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """The value of an option; before Python 3.13, argparse makes an empty list of ``--``, as in ``--model=--``."""
        if arg_strings == ["--"] and action.option_strings and action.nargs is None:
            self.error(f"{'/'.join(action.option_strings)}: expected one argument")
        return super()._get_values(action, arg_strings)

    def _fill(self, options: argparse.Namespace) -> None:
        """Give options that are not on the command line the values of their environment variables."""
        options.given_by = {}  # by option, the variable that gives its value
        for variable, option in environment.VARIABLES.items():
            action, text = self._option_string_actions.get(option), os.environ.get(variable)
            if not text or action is None or action.default is not None or getattr(options, action.dest) is not None:
                continue
            if option == "--settings" and options.isolated:
                continue
            try:
                value = self._get_value(action, text)
                self._check_value(action, value)
            except argparse.ArgumentError as error:
                self.error(f"{variable}: {error.message}")
            if reason := environment.complaint(option, str(value)):
                self.error(f"{variable}: {reason}")
            setattr(options, action.dest, value)
            options.given_by[option.removeprefix("--")] = variable

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """One value of an option; if there are choices, the one that is meant, in upper or lower case."""
        value = super()._get_value(action, arg_string)
        if action.choices is None or isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as below
            return value
        return next((one for one in action.choices if str(one).lower() == str(value).lower()), value)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = [str(one) for one in action.choices]
        if not isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no public name for it
            raise argparse.ArgumentError(action, f"unknown value {value}{hint(str(value), choices, lists=True)}")
        meant = hint(value, choices)
        if not meant and os.path.exists(value):
            meant = f"; to check this file: {self.prog} check {value}"
        self.error(f"unknown command {value}{meant}")


class Help(argparse.RawDescriptionHelpFormatter):
    """Help in the width of the terminal; argparse makes one for each option, and imports shutil for the width."""

    def __init__(self, prog: str, **given: Any) -> None:
        width = terminal_of(sys.stdout).width or USUAL_WIDTH
        super().__init__(prog, **{"width": width - 2, **given})  # argparse leaves two columns too


class CommandsHelp(Help):
    """Help with one line for each command; argparse does not count by how much it indents commands."""

    def add_argument(self, action: argparse.Action) -> None:
        """Add an action, which may be the choice of a command."""
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no public name for it
            self._action_max_length += self._indent_increment


def hint(word: str, choices: list[str], *, lists: bool = False) -> str:
    """What was probably meant by a word that is not among the choices, or, if asked for, all of them."""
    from ds_lint.knowledge.suggestions import choice  # only a wrong command line needs it

    meant = choice(word, choices)
    if meant:
        return f"; did you mean {meant}?"
    return f"; choose from {', '.join(choices)}" if lists else ""

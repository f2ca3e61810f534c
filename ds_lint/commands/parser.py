"""The command line in full, as the table of commands has it: options, help, errors."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any

from ds_lint import __version__
from ds_lint.commands.failures import complain
from ds_lint.commands.table import COMMANDS
from ds_lint.commands.usage import CommandsHelp, Help, Parser, hint
from ds_lint.linter.selection import UnknownRule
from ds_lint.output.terminal import colour
from ds_lint.project.discovery import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ds_lint.commands.table import Command
    from ds_lint.option import Option

_EPILOG = """\
examples:
  ds-lint check ds_config.json                  check one file
  ds-lint check                                 check all configs below here
  ds-lint check ds_config.json --stack trainer  check it for the Trainer only
  ds-lint check - < ds_config.json              check standard input
  ds-lint explain zero_optimization.stage       show what a key means
  ds-lint init --stage 3 --offload cpu          write a config to start from

"ds-lint help COMMAND" prints the options of a command.
"""


def parse(arguments: list[str]) -> int:
    """Run the subcommand that the command line names."""
    parser = command_line(None if "completion" in arguments else arguments)  # a shell completes the options of all
    arguments, behind = _split(arguments)
    options, left = parser.parse_known_args(_for_argparse(arguments))
    options.parser = parser
    if behind is not None:
        options.command_words = behind
    if not hasattr(options, "run"):
        parser.print_help(sys.stderr)
        return 2
    if left and hasattr(options, "paths"):
        if "--" in left:
            left.remove("--")
        options.paths += left  # argparse takes the paths before an option, or those behind it
    elif left:
        parser.error(f"unexpected argument {left[0]}")
    colour(getattr(options, "color", None) or "auto")
    try:
        return int(options.run(options))
    except UnknownRule as error:
        return complain(str(error))


def _split(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """The command line of ``smoke`` and the command behind ``--``, whose words are not options of ds-lint."""
    if arguments[:1] != ["smoke"]:
        return arguments, None
    if "--" not in arguments:  # the options of a command that lacks it are not those of ds-lint
        return ["smoke", *(one for one in arguments if one in ("-h", "--help"))], []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _for_argparse(arguments: list[str]) -> list[str]:
    """The command line for argparse, which takes every word that begins with a dash for an option.

    The flags that follow ``--trainer-args`` are joined to it with ``=``, and a file whose name begins with a dash, as
    pre-commit passes it, gets a ``./``.
    """
    tied: list[str] = []
    for argument in arguments:
        if argument.startswith("-") and argument.endswith(ENDINGS) and "--" not in tied and os.path.isfile(argument):
            tied.append(os.path.join(os.curdir, argument))
        elif tied and tied[-1] == "--trainer-args" and argument.startswith("--") and argument != "--":
            tied[-1] += f"={argument}"
        else:
            tied.append(argument)
    return tied


def command_line(words: Iterable[str] | None = None) -> Parser:
    """The parser with all subcommands, and the options of those that are among these words, or of all."""
    parser = Parser(
        prog="ds-lint",
        description="A linter for DeepSpeed configs: what DeepSpeed, the Hugging Face Trainer and\n"
        "Accelerate really do with a config, before the job starts.",
        epilog=_EPILOG,
        formatter_class=CommandsHelp,
    )
    parser.add_argument("-V", "--version", action="version", version=f"ds-lint {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        _add(command, commands, has_options=words is None or command.name in words)
    _add_help(commands, parser)
    return parser


def _add(command: Command, commands: argparse._SubParsersAction[Parser], *, has_options: bool) -> None:
    parser = commands.add_parser(
        command.name,
        help=command.help,
        usage=command.usage,
        description=command.description,
        epilog=command.epilog,
        formatter_class=Help,
        add_help=has_options,
    )
    if not has_options:  # making them costs more than the rest of many commands
        return
    _add_options(parser, command.options(command.parts))
    for section in command.sections:
        _add_options(parser.add_argument_group(section.title, section.text), command.options(section.parts))
    parser.set_defaults(run=command.run)


def _add_options(group: argparse._ActionsContainer, options: Iterable[Option]) -> None:
    exclusive: dict[str | None, argparse._ActionsContainer] = {None: group}
    for option in options:
        if option.either not in exclusive:
            exclusive[option.either] = group.add_mutually_exclusive_group()
        names = list(option.flags or [f"--{option.dashed}"]) if option.is_named else [option.name]
        exclusive[option.either].add_argument(*names, **_about(option))


def _about(option: Option) -> dict[str, Any]:
    """How argparse shows an option and reads its value."""
    about: dict[str, Any] = {"help": argparse.SUPPRESS if option.is_hidden else option.help}
    if option.is_named:
        about["dest"] = option.dest or option.name
    if option.type == "bool":
        return {**about, "action": "store_false" if option.default else "store_true"}
    if option.type == "bool | None":
        switch = (
            {"action": argparse.BooleanOptionalAction}
            if option.can_be_off
            else {"action": "store_const", "const": True}
        )
        return {**about, **switch}
    if option.is_repeated:
        return {**about, "metavar": option.metavar, "action": "append", "type": _pair(option)}
    about |= {"choices": option.choices, "metavar": option.metavar}
    is_list = option.type.startswith(("list", "Sequence"))
    if not option.is_named:
        return {**about, "nargs": "*"} if is_list else {**about, "nargs": "?"} if option.is_optional else about
    if option.is_whole:
        return {**about, "action": "append"}
    if is_list:
        return {**about, "type": _words, "action": "extend"}
    if option.is_number:
        about["type"] = int if option.choices is not None else _at_least(option.least)
    return {**about, "default": option.default, "required": option.is_required}


def _add_help(commands: argparse._SubParsersAction[Parser], parser: Parser) -> None:
    names = commands.choices
    sub = commands.add_parser(
        "help", help="print the help of a command", description="Print the help of a command.", formatter_class=Help
    )
    sub.add_argument("command", nargs="?", choices=list(names), metavar="COMMAND", help="the command (default: all)")

    def run(options: argparse.Namespace) -> int:
        (parser if options.command is None else names[options.command]).print_help()
        return 0

    sub.set_defaults(run=run)


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return number

    return whole


def _pair(option: Option) -> Callable[[str], str]:
    """Reads a choice and what belongs to it, such as ``sarif=FILE``."""
    choices = list(map(str, option.choices or ()))

    def pair(text: str) -> str:
        name, _, value = text.partition("=")
        if not value:
            raise argparse.ArgumentTypeError(f"{text} is not {option.metavar}")
        if name.lower() not in choices:
            raise argparse.ArgumentTypeError(f"unknown value {name}{hint(name, choices, lists=True)}")
        return f"{name.lower()}={value}"

    return pair


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]

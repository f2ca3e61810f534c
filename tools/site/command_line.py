"""The list of all options on the page about the command line, made from the parser."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from ds_lint.commands.parser import command_line

if TYPE_CHECKING:
    from collections.abc import Iterator


def options() -> str:
    """Every command with its options, for the end of the page."""
    parser = command_line()
    text = ["| command | |", "|---|---|"]
    commands = _commands(parser)
    helps = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    text += [
        f"| [`ds-lint {name}`](#{name}) | {_sentence(helps[name])} |" for name in commands.choices if name in helps
    ]
    for name, command in commands.choices.items():
        if name in helps:
            text += list(_command(name, command))
    return "\n".join(text) + "\n"


def _commands(parser: argparse.ArgumentParser) -> argparse._SubParsersAction[argparse.ArgumentParser]:
    return next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))


def _command(name: str, command: argparse.ArgumentParser) -> Iterator[str]:
    yield f"\n## `ds-lint {name}` {{: #{name} }}\n"
    yield f"{_joined(command.description)}\n"
    for group in command._action_groups:
        actions = [
            action
            for action in group._group_actions
            if action.help != argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)
        ]
        if not actions:
            continue
        if group.title and group.title not in ("positional arguments", "options"):
            yield f"### {_sentence(group.title).rstrip('.')} {{: #{name}-{_slug(group.title)} }}\n"
        for action in actions:
            yield f"{_name(action)} {{: #{name}{_slug(_dashed(action))} }}\n:   {_help(action, command)}\n"
    if command.epilog:
        yield f"```text\n{command.epilog.strip()}\n```\n"


def _name(action: argparse.Action) -> str:
    value = action.metavar or ("|".join(map(str, action.choices)) if action.choices else None)
    if not action.option_strings:
        return f"`{value or action.dest}`"
    shown = f" {value or action.dest.upper()}" if action.nargs != 0 else ""
    return ", ".join(f"`{option}{shown}`" for option in action.option_strings)


def _dashed(action: argparse.Action) -> str:
    return action.option_strings[-1] if action.option_strings else f"-{action.dest}"


def _help(action: argparse.Action, command: argparse.ArgumentParser) -> str:
    words = command._get_formatter()._expand_help(action) if action.help else ""
    return _sentence(words)


def _joined(text: str | None) -> str:
    return " ".join((text or "").split())


def _sentence(text: str) -> str:
    """The words of a help, as a sentence in Markdown: options in code."""
    marked = re.sub(
        r'"(--[a-z][^"]*)"|(?<![\w`"-])(--[a-z][\w-]*)', r"`\1\2`", text.replace("<", "&lt;").replace("*", "\\*")
    )
    return f"{marked[:1].upper()}{marked[1:]}." if marked and not marked.endswith(".") else marked


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip()

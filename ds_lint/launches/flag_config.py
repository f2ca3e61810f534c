"""A DeepSpeed config that is in no file: ``accelerate launch --use_deepspeed --zero_stage 3`` makes it of its flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.source.document import Document
from ds_lint.source.languages import language_of
from ds_lint.source.tree import Member, Node, Span

if TYPE_CHECKING:
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.word import Word

MARKS = (b"--use_deepspeed", b"--use-deepspeed")  # one of which such a script has
_COMMENT = re.compile(r"(?:(?<=\s)|^)#.*", re.MULTILINE)
_FILES = ("config_file", "deepspeed_config_file")


def has_own_config(launch: Launch) -> bool:
    """Whether a launch certainly makes a config of its flags: none names a file, and there are no others."""
    around = launch.surroundings
    is_known = launch.launcher == "accelerate" and around.is_complete and launch.deepspeed_config is None
    return is_known and around.has("use_deepspeed") and not around.has(*_FILES)


def document_of_flags(launch: Launch, script: Document) -> Document:
    """The config that a launch makes of its flags, which are in the text of a script."""
    document = Document(script.path, script.text, None, [])
    document.notebook = script.notebook
    language = language_of(script.path)
    document.language = "notebook" if script.notebook is not None else "shell" if language == "json" else language
    document.comments = [Span(*found.span()) for found in _COMMENT.finditer(script.text)]
    document.kind, document.command = "accelerate", identity(launch)
    command = _command(script, launch.line)
    members = [_member(name, value, script.text, command) for name, value in launch.surroundings.options]
    document.root = Node("object", command, None, members)
    return document


def identity(launch: Launch) -> object:
    """What tells a launch from the others of a project."""
    return launch.path, launch.line, launch.surroundings.options


def _command(script: Document, line: int) -> Span:
    """The lines of a command: those that a backslash joins."""
    starts = [*script.line_starts(), len(script.text) + 1]
    last = line
    while last < len(starts) - 1 and script.text[starts[last - 1] : starts[last] - 1].rstrip().endswith("\\"):
        last += 1
    text = script.text[starts[line - 1] : starts[last] - 1]
    start = starts[line - 1] + len(text) - len(text.lstrip())
    return Span(start, starts[line - 1] + len(text.rstrip()))


def _member(name: str, value: Word, text: str, command: Span) -> Member:
    """A flag where the command or a variable of the script has it, else at the command."""
    flag = rf"--{name.replace('_', '[_-]')}(?![\w-])"
    found = None
    if value is not None:
        sought = re.compile(rf"({flag})(?:[ =\t\"']|\\\n)*({re.escape(value)})" if value else f"({flag})()")
        found = sought.search(text, command.start, command.end) or sought.search(text)
    if found is None:
        found = re.compile(rf"({flag})()").search(text, command.start, command.end)
    key = Span(*found.span(1)) if found is not None else command
    there = Span(*found.span(2)) if found is not None and found[2] else key
    if value is None:
        return Member(name, key, Node("template", there, ""))
    return Member(name, key, Node("string", there, value))

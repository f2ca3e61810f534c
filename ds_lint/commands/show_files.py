"""``ds-lint check --show-files``: which files would be checked, and what each is and why."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from json import dumps
from typing import NamedTuple

from ds_lint.commands.documents import STANDARD_INPUT, complaints_into, documents
from ds_lint.commands.failures import WRONG_USAGE, complain, list_unreadable, unless_it_fails
from ds_lint.commands.report import print_text, write_notes
from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.terminal import QUIET, STRONG, terminal_of
from ds_lint.output.text import counted, shown_path, visible, width_of, wrap
from ds_lint.session.session import Session
from ds_lint.source.recognition import accelerates_keys, held, recipe_keys, telling_keys
from ds_lint.source.tree import Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.diagnostics.report import Complaint
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.options import Options
    from ds_lint.source.document import Document

VERSION = 1  # of the JSON, raised when a reader of it would have to change
DEEPSPEED = "deepspeed"  # the kind of a file with a DeepSpeed config
_MOST_KEYS = 3  # in a reason


class _ShownConfig(NamedTuple):
    """Where a config starts in its file, and the stack that loads it if that is known."""

    line: int
    column: int
    stack: Stack | None


class _ShownFile(NamedTuple):
    """A file that would be checked."""

    path: str
    kind: str
    why: str
    configs: list[_ShownConfig]


def show_files(options: Options) -> int:
    """Print the files that a check would check, and return the exit status."""
    unreadable: list[Complaint] = []
    try:
        session = Session(options, on_error=complaints_into(unreadable))
        files = list(_files(options, session, unreadable))
    except WRONG_USAGE as error:
        return complain(error)
    list_unreadable(unreadable)
    if options.output_format == "json":
        sys.stdout.write(harmless(_as_json(files), JSON))
    elif files:
        print_text(harmless("".join(f"{line}\n" for line in _lines(files, terminal_of(sys.stdout)))), sys.stdout)
    elif not (unreadable or options.quiet):
        write_notes(["no DeepSpeed configs found"])
    return 2 if unreadable else 0


def _files(options: Options, session: Session, unreadable: list[Complaint]) -> Iterator[_ShownFile]:
    for name, found in groupby(documents(options, session, unreadable), lambda one: one[1].path):
        file: _ShownFile | None = None
        for given, document in found:
            is_named = given in (STANDARD_INPUT, name)
            is_reached = not is_named and not os.path.isdir(given)
            by = "named on the command line" if is_named else f"reached by {shown_path(given)}" if is_reached else ""
            file = file or _ShownFile(name, _kind(document), _why(document, by), [])
            if (node := _config_node(document)) is not None:
                stack = unless_it_fails(lambda: _stack(document, session), name, unreadable)  # noqa: B023 - called at once
                (line, column), _ = document.ends_in_file(node.span)
                file.configs.append(_ShownConfig(line, column, stack))
        assert file is not None  # noqa: S101 - a group has an element
        yield file


def _config_node(document: Document) -> Node | None:
    """The config in a document; None in a recipe that names a file, and in what Python does not parse."""
    if document.is_unparsed:
        return None
    if document.kind == "recipe":
        preset = TrainingRecipe(document).preset
        return held(document) if preset is None else Node("missing", preset.place)
    return document.root or Node("missing", Span(0, 0))


def _kind(document: Document) -> str:
    if document.kind in ("accelerate", "recipe"):
        return document.kind
    return DEEPSPEED if document.language == "json" else document.language


def _stack(document: Document, session: Session) -> Stack | None:
    return session.context(document.path).lint(document, []).stack


def _why(document: Document, by: str) -> str:
    """What makes a file one to check; ``by`` names what led to it, except for a search."""
    if document.is_unparsed:
        return f"Python cannot parse it: {visible(document.issues[0].found)}"
    if document.kind == "recipe":
        framework, keys = recipe_keys(document.root)
        return "; ".join(filter(None, (by, _recipe(framework, keys))))
    if document.preset is not None:
        has = f"a command names `{document.preset.word}`, a config of {document.preset.framework.name}"
    elif document.command is not None:
        has = "a command makes a config of its flags or variables"
    elif document.kind in ("deepspeed", "accelerate"):
        keys = telling_keys(document.root) if document.kind == "deepspeed" else accelerates_keys(document.root)
        has = f"has {', '.join(f'`{visible(key)}`' for key in keys[:_MOST_KEYS])}" if keys else ""
    else:
        name = document.root.value if document.root is not None and document.root.kind == "string" else None
        has = f"calls `{document.kind}`{'' if name is None else f' with `{visible(str(name))}`'}"
    return "; ".join(filter(None, (by, has)))


def _recipe(framework: str, keys: list[str]) -> str:
    return f"recipe of {framework}, has {', '.join(f'`{visible(key)}`' for key in keys[:_MOST_KEYS])}"


def _lines(files: list[_ShownFile], terminal: Terminal) -> Iterator[str]:
    width = max(width_of(shown_path(file.path)) for file in files)
    for file in files:
        path = shown_path(file.path)
        stacks = [f"stack {config.stack}" for config in file.configs if config.stack is not None]
        number = (counted(len(file.configs), "config"),) if len(file.configs) > 1 else ()
        about = "; ".join((f"{file.kind}: {file.why}", *number, *dict.fromkeys(stacks)))
        taken = width + 2
        first, *more = wrap(about, terminal.width, taken=taken, indent=taken)
        yield f"{terminal.paint(path, STRONG)}{' ' * (taken - width_of(path))}{terminal.paint(first, QUIET)}"
        yield from (terminal.paint(line, QUIET) for line in more)


def _as_json(files: list[_ShownFile]) -> str:
    described = [{**file._asdict(), "configs": [config._asdict() for config in file.configs]} for file in files]
    return dumps({"version": VERSION, "files": described}, indent=2) + "\n"

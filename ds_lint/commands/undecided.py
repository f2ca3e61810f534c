"""Notes on the configs that only a run of a script shows, where no other is found: they are not checked."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.launches.training_script import read_training_script
from ds_lint.project.discovery import candidates
from ds_lint.source.files import bytes_of
from ds_lint.source.python import undecided
from ds_lint.source.python_names import ModuleNames
from ds_lint.source.python_syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.session.options import Options
    from ds_lint.session.session import Session
    from ds_lint.source.python import UndecidedConfig

_MOST_NOTES = 20


def notes(options: Options, session: Session) -> list[str]:
    """One for each call, up to a number of them."""
    found = [
        f"config of {one.call} at {path}:{one.line} is computed at run time: not checked"
        for path in _modules(options, session)
        for one in _in_file(path)
    ]
    more = [f"{len(found) - _MOST_NOTES} more configs are computed at run time: not checked"]
    return found if len(found) <= _MOST_NOTES else [*found[:_MOST_NOTES], *more]


def _modules(options: Options, session: Session) -> Iterator[str]:
    for path in options.paths:
        if os.path.isdir(path):
            if not session.forbids(path, is_folder=True):
                found = candidates(
                    path,
                    lambda _: None,  # the search for configs has complained
                    leaves_out=session.leaves_out,
                    respects_gitignore=session.respects_gitignore(path),
                    included=session.included,
                )
                yield from (one for one in found if one.endswith(".py"))
        elif path.endswith(".py") and not session.forbids(path, is_folder=False):
            yield path


def _in_file(path: str) -> list[UndecidedConfig]:
    """The calls in a module that names no config itself."""
    try:
        data = bytes_of(path)
        if b"deepspeed" not in data:
            return []
        text = data.decode()
        script = read_training_script(text)
        return [] if script is None or script.config else undecided(ModuleNames(parsed(text)), text)
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []

"""The files that the terms for a config are read from, and whether they have changed."""

from __future__ import annotations

import os

from ds_lint.settings.nearest import NAMES, user_file
from ds_lint.targets.directories import up_to_root, with_parents
from ds_lint.targets.distributions import environments
from ds_lint.targets.files import by_standing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.facts import Sources
    from ds_lint.session.context import LintContext

    Stamps = dict[str, tuple[int, int] | None]  # by path, time and size


def stamps(paths: Iterable[str]) -> Stamps:
    """What tells whether these files have changed."""
    return {path: stamp(path) for path in paths}


def stamp(path: str) -> tuple[int, int] | None:
    """Time and size of a file or folder; None if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


def inputs(directory: str, context: LintContext | None) -> Iterator[str]:
    """The files and folders that the terms for a folder are read from; without a context those that lie near it."""
    yield from settings_above([directory])
    for here, names in up_to_root(directory):
        yield here
        for paths in by_standing(here, names):
            yield from paths
    for paths in environments(directory):
        yield from (path for path in paths if os.path.isdir(path))
    if context is not None:
        settings = context.settings
        yield from settings.extends
        yield from settings.policy
        for sources in (settings.sources, *(entry.sources for entry in settings.configs)):
            yield from inputs_of(sources)
        yield from (place.path for pin in context.choice.pins.values() for place in pin.places)


def settings_above(directories: Iterable[str]) -> set[str]:
    """The files of settings that these folders may have, and the folders above them, and that of the user."""
    folders = {folder for directory in directories for folder in with_parents(os.path.abspath(directory))}
    own = user_file()
    return {os.path.join(folder, name) for folder in folders for name in NAMES} | ({own} if own else set())


def inputs_of(sources: Sources) -> Iterator[str]:
    """The files that facts are read from."""
    if isinstance(sources.trainer_args, str):
        yield sources.trainer_args
    if sources.model is not None:
        yield os.path.join(sources.model, "config.json")

"""The launches of a project: what starts training in its scripts, and with which words."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches import files
from ds_lint.launches.scripts import may_launch
from ds_lint.project.discovery import candidates
from ds_lint.source.files import bytes_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.launches.launch import Launch
    from ds_lint.project.discovery import LeavesOut

_MOST_BYTES = 500_000  # of a script; the longest of 500 public ones has 30,000
_MOST_FOLDERS = 6  # a script seldom lies deeper below the folder that it is started in


class LaunchFile(NamedTuple):
    """A file that launches training, with its path in the project; ``misread`` are lines that the parser rejects."""

    path: str
    text: str
    launches: list[Launch]
    misread: list[int]


def launch_files(
    directory: str,
    on_error: Callable[[OSError], None],
    *,
    leaves_out: LeavesOut,
    respects_gitignore: bool = False,
    names: set[bytes] | None = None,
    most: int | None = None,
) -> Iterator[LaunchFile]:
    """The files below a directory that launch training; with ``names``, those that have one of these words.

    No more than ``most`` files are looked at, and then no Python and no notebooks, which hardly ever launch anything.
    """
    looked_at = 0
    workflows = os.path.join(directory, ".github", "workflows")  # hidden, and so not searched
    for start in (directory, workflows):
        if start is workflows and not os.path.isdir(workflows):
            continue
        for path in candidates(
            start,
            on_error,
            leaves_out=leaves_out,
            respects_gitignore=respects_gitignore,
            wants=_may_be_script if most is None else _is_script,
        ):
            looked_at += 1
            if most is not None and looked_at > most:
                return
            found = read_launches(path, directory, names)
            if found is not None:
                yield found


def read_launches(path: str, directory: str, names: set[bytes] | None = None) -> LaunchFile | None:
    """The launches in one file of a project; None if it has none, or none of these words."""
    try:
        data = bytes_of(path, _MOST_BYTES)
    except OSError:
        return None
    kind = files.kind_of(path, data)
    if kind is None:
        return None
    if names is not None and not any(name in data for name in names):
        return None
    place = os.path.relpath(path, directory).replace(os.sep, "/")
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    if not may_launch(text):
        return None
    found = files.launches(text, place, kind, _reader(place, directory))
    return LaunchFile(place, text, found.launches, found.misread) if found.launches or found.misread else None


def _is_script(name: str) -> bool:
    return _may_be_script(name) and not name.endswith((".py", ".ipynb"))


def _may_be_script(name: str) -> bool:
    lower = name.lower()
    return lower.endswith(files.ENDINGS) or "." not in name or lower.startswith(("dockerfile", "containerfile"))


def _reader(script: str, directory: str) -> Callable[[str], str | None]:
    """A function that reads what a script names: from the folder of the project, else from its own or one above it."""

    def read(name: str) -> str | None:
        path = located_below(name, script, directory)
        return None if path is None else text_of(path)

    return read


def text_of(path: str) -> str | None:
    """The text of a script; None if it cannot be read."""
    try:
        return bytes_of(path, _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None


def located_below(name: str, script: str, directory: str) -> str | None:
    """The file of a project that a script names; None if there is none, or several by where the script is started."""
    found = {os.path.realpath(path): path for path in _places(name, script, directory) if os.path.isfile(path)}
    return next(iter(found.values())) if len(found) == 1 else None


def folder_below(name: str, script: str, directory: str) -> str | None:
    """The same for a folder, such as that of a model."""
    found = {os.path.realpath(path): path for path in _places(name, script, directory) if os.path.isdir(path)}
    return next(iter(found.values())) if len(found) == 1 else None


def _places(name: str, script: str, directory: str) -> Iterator[str]:
    if not name or os.path.isabs(name) or "\x00" in name:
        return
    folder = os.path.dirname(script)
    bases = ["", folder]
    while folder and len(bases) < _MOST_FOLDERS:
        folder = os.path.dirname(folder)
        bases.append(folder)
    for base in bases:
        place = os.path.normpath(os.path.join(base, name))
        path = os.path.join(directory, place)
        if not place.startswith(os.pardir):
            yield path

"""The launch that a command makes, read as if a shell script had it."""

from __future__ import annotations

import os
from shlex import join
from typing import TYPE_CHECKING

from ds_lint.project.launches import read_launches
from ds_lint.session.launched import LaunchingProject
from ds_lint.source.files import MOST_BYTES, Files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.facts.launched import LaunchFacts

NAME = "<command line>.sh"  # the script that there is not
_SHOWN = "<command line>"


class _WithCommand(Files):
    """The files on the disk, and a script that has the command."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def bytes_of(self, path: str, most: int = MOST_BYTES) -> bytes:
        """The content of a file. Raises OSError."""
        return self._text.encode() if os.path.basename(path) == NAME else super().bytes_of(path, most)

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        return os.path.basename(path) == NAME or super().has(path)


def launches_of(command: Sequence[str]) -> list[tuple[LaunchFacts, list[str]]]:
    """The launches of a command, or of the script that it runs, each with the configs and files that it names."""
    files = _WithCommand(join(command) + "\n")
    project = LaunchingProject(os.curdir, files)
    for path in (NAME, *_scripts(command)):
        file = read_launches(path, os.curdir, files)
        if file is not None and file.launches:
            return [_named(launch, project.named_by(launch, file.path)) for launch in project.launches(file)]
    return []


def _named(launch: LaunchFacts, paths: Iterator[str]) -> tuple[LaunchFacts, list[str]]:
    if os.path.basename(launch.document.path) == NAME:
        launch.document.path = _SHOWN
    return launch, [os.path.normpath(path) for path in paths]


def _scripts(command: Sequence[str]) -> Iterator[str]:
    """The shell scripts among the words of a command."""
    return (word for word in command[:3] if os.path.isfile(word) and not word.endswith(".py"))

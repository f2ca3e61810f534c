"""The Python processes of a start that have run the startup hook, whether or not they train."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_THE_RUN, _LATER = "python-", "later-"  # the second: once the ranks have made their steps
_SHOWN = 60  # characters of a command line


class HookedPython(NamedTuple):
    """A process whose Python has run the startup hook."""

    pid: int
    release: str  # of Python, "3.11.7"
    error: str  # why the probe could not start; empty if it could, or did not need to
    words: list[str]  # its command line

    @property
    def command(self) -> str:
        """Its command line, for a message."""
        return shortened(self.words)


def shortened(words: list[str]) -> str:
    """A command line, for a message."""
    line = " ".join(os.path.basename(word) if os.path.isabs(word) else word for word in words)
    return f"`{line if len(line) <= _SHOWN else f'{line[:_SHOWN]}...'}`"


def read(folder: str) -> list[HookedPython]:
    """The processes of a start, from the files that ``startup/sitecustomize.py`` leaves."""
    return list(_read(folder, _OF_THE_RUN))


def read_later(folder: str) -> list[HookedPython]:
    """Those that the command has started after the steps of the run, and that have ended at once."""
    return list(_read(folder, _LATER))


def _read(folder: str, prefix: str) -> Iterator[HookedPython]:
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.startswith(prefix):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                release, error, *words = file.read().split("\0")
            yield HookedPython(int(name[len(prefix) :]), release, error, words)

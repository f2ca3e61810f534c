"""The Python processes of a start that have run the startup hook, whether or not they train."""

from __future__ import annotations

import os
from typing import NamedTuple

_PREFIX = "python-"


class HookedPython(NamedTuple):
    """A process whose Python has run the startup hook."""

    pid: int
    release: str  # of Python, "3.11.7"
    error: str  # why the probe could not start; empty if it could, or did not need to
    words: list[str]  # its command line


def read(folder: str) -> list[HookedPython]:
    """The processes of a start, from the files that ``startup/sitecustomize.py`` leaves."""
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.startswith(_PREFIX):
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                release, error, *words = file.read().split("\0")
            found.append(HookedPython(int(name[len(_PREFIX) :]), release, error, words))
    return found

"""The Python processes of a start that have run the startup hook, whether or not they train."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.journal import areas

if TYPE_CHECKING:
    from collections.abc import Iterator

_OF_THE_RUN, _LATER = "python-", "later-"  # the second: once the ranks have made their steps
_END = "end-"
_SHOWN = 60  # characters of a command line


class ProgramEnd(NamedTuple):
    """What ends a program by itself, in Python's own words."""

    kind: str  # of the exception; "ArgumentError" and "SystemExit" for a parser of arguments and ``sys.exit``
    where: str  # "train.py:3", or the name of the program; may be empty
    text: str

    @property
    def sentence(self) -> str:
        """The same, for a message."""
        text = next((line for line in self.text.splitlines() if line.strip()), "").strip()
        if self.kind == "ArgumentError":
            return f"{self.where} refuses its arguments: {text}" if self.where else f"its arguments are refused: {text}"
        if self.kind in ("SystemExit", "FileNotFoundError") and not self.where:
            return _without_interpreter(text)
        raised = f"{self.kind}: {text}" if text else self.kind
        return f"{raised} ({self.where})" if self.where and not text.endswith(")") else raised


def _without_interpreter(text: str) -> str:
    """What ``python -m`` says, without the path of the interpreter before it."""
    first, found, rest = text.partition(": ")
    return rest if found and os.path.isabs(first) else text


class HookedPython(NamedTuple):
    """A process whose Python has run the startup hook."""

    pid: int
    release: str  # of Python, "3.11.7"
    error: str  # why the probe could not start; empty if it could, or did not need to
    words: list[str]  # its command line
    end: ProgramEnd | None = None  # what has ended it, if it has left that
    node: str = ""  # its name; empty on the node of the driver

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
    for node, place in areas.places_of_processes(folder).items():
        for name in sorted(os.listdir(place)):
            if name.startswith(prefix):
                with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                    release, error, *words = file.read().split("\0")
                pid = name[len(prefix) :]
                yield HookedPython(int(pid), release, error, words, _end_of(place, pid), node)


def _end_of(folder: str, pid: str) -> ProgramEnd | None:
    path = os.path.join(folder, f"{_END}{pid}")
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        kind, where, text = file.read().split("\0", 2)
    return ProgramEnd(kind, where, text)

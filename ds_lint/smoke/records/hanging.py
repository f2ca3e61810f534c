"""Where a rank that hangs is, from the stack that faulthandler wrote into its log."""

from __future__ import annotations

import re
from typing import NamedTuple

_START = re.compile(r"^(?:Current thread|Thread) 0x.*\(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$')
_OF_COLLECTIVES = ("torch/distributed/", "deepspeed/comm/")  # in which a rank waits for the others
_TAIL = 2**16  # bytes of a log


class HangingPlace(NamedTuple):
    """Where a rank hangs; ``waits`` if it does so in a collective, for the other ranks."""

    frame: str  # "deepspeed/runtime/engine.py:2482 step"
    waits: bool

    def __str__(self) -> str:
        return f"waiting for the other ranks at {self.frame}" if self.waits else self.frame


def place(log: str) -> HangingPlace | None:
    """The innermost frame of the main thread; None without a stack.

    faulthandler writes the main thread last.
    """
    frames: list[tuple[str, str, str]] = []
    for line in _end_of(log).splitlines():
        if _START.match(line):
            frames = []
        elif (frame := _FRAME.match(line)) is not None:
            frames.append((frame[1], frame[2], frame[3]))
    if not frames:
        return None
    # What was called last in a collective depends on the backend.
    path, line, name = next((frame for frame in frames if not _is_of_library(frame[0], "torch/")), frames[0])
    waits = any(_is_of_library(frame[0], part) for frame in frames for part in _OF_COLLECTIVES)
    return HangingPlace(f"{path.rpartition('site-packages/')[2]}:{line} {name}", waits)


def _is_of_library(path: str, part: str) -> bool:
    return path.rpartition("site-packages/")[2].startswith(part)


def _end_of(log: str) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""

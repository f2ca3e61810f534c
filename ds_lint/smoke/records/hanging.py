"""Where a rank that hangs is, from the stack that faulthandler wrote into its log."""

from __future__ import annotations

import re

_START = re.compile(r"^(?:Current thread|Thread) 0x.*\(most recent call first\):$")
_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$')
_OF_COLLECTIVES = ("torch/distributed/", "deepspeed/comm/")  # in which a rank waits for the others
_TAIL = 2**16  # bytes of a log


def place(log: str) -> str | None:
    """The innermost frame of the main thread, as ``deepspeed/runtime/engine.py:2482 step``; None without a stack.

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
    return f"{WAITING if waits else ''}{path.rpartition('site-packages/')[2]}:{line} {name}"


WAITING = "waiting for the other ranks at "


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

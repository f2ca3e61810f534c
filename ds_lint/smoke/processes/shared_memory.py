"""The segments of shared memory that a command makes: named by whatever library, seen by who maps them."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING

from ds_lint.smoke.processes.leftovers import SHARED_MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable

_OF_PROCESS = re.compile(r"(?:torch_|__KMP_REGISTERED_LIB_|pym-)(\d+)[_-]")  # of torch, OpenMP, multiprocessing


class SegmentsOfRun:
    """The segments that were not there before, and that processes of the run have mapped or are named after."""

    def __init__(self) -> None:
        self._before = _segments()
        self._seen: set[str] = set()

    def look(self, pids: Iterable[int]) -> None:
        """Note what these processes have mapped."""
        for pid in pids:
            self._seen |= _mapped(pid)

    def remove(self, pids: Iterable[int]) -> None:
        """Remove them, after all processes of the run have ended; ``pids`` are their numbers."""
        new = _segments() - self._before
        ended = {str(pid) for pid in pids if not os.path.exists(f"/proc/{pid}")}
        left = {path for path in new if path in self._seen or ended.intersection(_OF_PROCESS.findall(path))}
        used = set().union(*map(_mapped, _all_processes())) if left else set()
        for path in left - used:
            with contextlib.suppress(OSError):  # of another user
                os.unlink(path)


def _segments() -> set[str]:
    try:
        return {os.path.join(SHARED_MEMORY, name) for name in os.listdir(SHARED_MEMORY)}
    except OSError:  # macOS
        return set()


def _mapped(pid: int) -> set[str]:
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            paths = (line.rstrip("\n").partition("/")[2] for line in file if f" {SHARED_MEMORY}/" in line)
            return {f"/{path}" for path in paths}
    except OSError:
        return set()


def _all_processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()] if os.path.isdir("/proc") else []

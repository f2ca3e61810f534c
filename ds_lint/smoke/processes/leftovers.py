"""Processes and shared memory that a run leaves when it is ended: how to find and remove them."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

MARK = "DS_LINT_SMOKE"  # names the folder of the run in the environment of each of its processes
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - on Linux; the segments of DeepSpeed and torch are there
_ROUNDS = 1200  # a killed process may have forked just before, and takes time to end
_OF_TRACKERS = 1000  # of these, for trackers of resources to remove semaphores, once the other processes are gone
_PAUSE = 0.01  # seconds between them


def port_of(pid: int) -> int:
    """The MASTER_PORT of the ranks of a pool: no process listens on it, DeepSpeed names its segments after it."""
    return 20000 + pid % 40000


def sweep(pids: Iterable[int], port: int | None = None) -> None:
    """Remove the segments of these processes, and those of ``deepspeed_shm_comm`` for a port.

    Names: ``torch_<pid>_*`` in torch, ``deepspeed_allreduce_buffer_<uid>_<address>_<port>`` in csrc/cpu/comm/shm.cpp.
    """
    patterns = [f"torch_{pid}_*" for pid in pids]
    if port is not None:
        patterns.append(f"deepspeed_allreduce_buffer_{os.getuid()}_*_{port}*")
    for pattern in patterns:
        for segment in glob.glob(os.path.join(SHARED_MEMORY, pattern)):
            with contextlib.suppress(OSError):
                os.unlink(segment)


def processes_of(folder: str) -> list[int]:
    """The processes of a run, in any session; none if the system does not list them (macOS)."""
    mark = os.fsencode(f"{MARK}={folder}")
    found = []
    for path in glob.iglob("/proc/[0-9]*/environ"):
        with contextlib.suppress(OSError), open(path, "rb") as file:  # of another user, or just ended
            if mark in file.read().split(b"\0"):
                found.append(int(path.split("/")[2]))
    return found


def end_processes_of(folder: str, *, but: Collection[int] = (), also: Callable[[], Iterable[int]] = tuple) -> None:
    """Kill the remaining processes of a run, and those that ``also`` names, and remove their segments."""
    for number in range(_ROUNDS):
        left = {*processes_of(folder), *also()}.difference(but)
        for pid in left:
            if number < _OF_TRACKERS and _tracks_resources(pid):
                continue
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        sweep(left)
        if not left:
            return
        time.sleep(_PAUSE)


def _tracks_resources(pid: int) -> bool:
    """Whether a process is the one in which ``multiprocessing`` removes the semaphores of others when they end."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"multiprocessing.resource_tracker" in file.read()
    except OSError:
        return False

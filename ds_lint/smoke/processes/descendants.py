"""The processes that a command starts, wherever they go: another session, another environment, another parent.

On Linux an orphan gets the nearest ancestor that asks for it as its parent (``PR_SET_CHILD_SUBREAPER``), so the chain
of parents leads here from whatever the command has started. Elsewhere (macOS) the chain breaks, and nothing is found.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_NOTED = "processes"  # in the folder of a run: what a later run ends, if this one is killed


class Process(NamedTuple):
    """A process, from ``/proc/PID/stat``."""

    pid: int
    state: str  # "Z" of one that has ended, and that its parent has not asked about
    parent: int
    began: int  # in ticks since the machine started: tells it from a later process with the same number
    image: str  # where its program lies in memory: a fork has that of its parent, and a new program another


class Descendants:
    """The processes below this one that are not there before."""

    def __init__(self) -> None:
        self._before = set(_below(os.getpid(), ()))  # whatever these start is not of the command either
        self._noted = ""

    def alive(self) -> set[int]:
        """Those that run on this node; another node that this machine plays has an agent of its own."""
        return {pid for pid, one in self._all().items() if one.state != "Z" and is_here(pid)}

    def reap(self, but: int) -> None:
        """Let go of those that have ended here; ``but`` is the command itself, about which its own code asks."""
        for pid, one in self._all().items():
            if one.parent == os.getpid() and pid != but:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def note(self, folder: str) -> None:
        """Write them down for whoever cleans up if this process is killed."""
        text = " ".join(f"{one.pid}:{one.began}" for one in self._all().values() if is_here(one.pid))
        if text == self._noted:
            return
        path = os.path.join(folder, _NOTED)
        with contextlib.suppress(OSError), open(f"{path}.new", "w", encoding="ascii") as file:  # on a full disk
            file.write(text)
            os.replace(file.name, path)
            self._noted = text

    def _all(self) -> dict[int, Process]:
        return _below(os.getpid(), self._before)


def is_here(pid: int) -> bool:
    """Whether a process is on this node: a namespace or a container with a name of its own is another one."""
    try:
        return os.readlink(f"/proc/{pid}/ns/uts") == os.readlink("/proc/self/ns/uts")
    except OSError:  # it has ended, or the system does not tell
        return True


def noted(folder: str) -> set[int]:
    """The processes that a killed ds-lint has noted, as far as they still run."""
    try:
        with open(os.path.join(folder, _NOTED), encoding="ascii") as file:
            pairs = dict(pair.split(":") for pair in file.read().split())
    except (OSError, ValueError):
        return set()
    found = (read(int(pid)) for pid in pairs)
    return {one.pid for one in found if one is not None and one.state != "Z" and pairs[str(one.pid)] == str(one.began)}


@contextlib.contextmanager
def adopted() -> Iterator[Descendants]:
    """Let orphans of what this process starts have it as their parent."""
    _set_adopting(wanted=True)
    try:
        yield Descendants()
    finally:
        _set_adopting(wanted=False)


def read(pid: int) -> Process | None:
    """A process; None if it has ended, or if the system does not tell (macOS)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].decode("ascii").split()  # the name before it may hold anything
    except OSError:
        return None
    # The numbers of proc(5), which counts from 1 and has two fields before these: startcode, startstack, start_brk.
    image = " ".join(fields[number - 3] for number in (26, 28, 47))
    return Process(pid, fields[0], int(fields[1]), int(fields[19]), image)


def _below(root: int, without: Collection[int]) -> dict[int, Process]:
    """All processes below one, without some and what is below them."""
    children: dict[int, list[Process]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal() and int(name) not in without and (one := read(int(name))):
            children.setdefault(one.parent, []).append(one)
    found: dict[int, Process] = {}
    ahead = [root]
    while ahead:
        for one in children.get(ahead.pop(), ()):
            found[one.pid] = one
            ahead.append(one.pid)
    return found


def _set_adopting(*, wanted: bool) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)

"""Processes of the command that train without the probe: nothing would stop them, or bring back what they overwrite."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from ds_lint.launches.launchers import is_launcher
from ds_lint.smoke.processes.leftovers import processes_of
from ds_lint.smoke.script.hooked import shortened
from ds_lint.smoke.script.processes import processes_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.probe.plan import Plan

_EVERY = 0.5  # seconds between looks at all processes of the machine; importing torch takes longer
_TORCH = b"/libtorch_python."  # in the memory map of a process that imports torch
_LEFT = re.compile(r"(?:python|process)-(\d+)(?:\.json)?")  # the files of an observed process
_IN_NAMESPACES = re.compile(r"^NSpid:([\t\d]*)$", re.MULTILINE)
_PARENT = re.compile(r"^PPid:\s*(\d+)", re.MULTILINE)


class Lookout:
    """Looks for such a process while the command runs; sees none where the system lists no processes (macOS)."""

    def __init__(self, plan: Plan, session: int) -> None:
        self._plan = plan
        self._session = session  # of the command, for processes whose environment is another one
        self._next = time.monotonic()
        self.found: str | None = None  # its command line, for a message

    def sees_one(self) -> bool:
        """Whether a process imports torch, starts no ranks itself, and is not observed."""
        if time.monotonic() >= self._next:
            self.found = next(map(shortened, self._unobserved()), None)
            self._next = time.monotonic() + _EVERY
        return self.found is not None

    def _unobserved(self) -> Iterator[list[str]]:
        """The command lines of such processes."""
        folder = self._plan.own_folder
        for pid in {*processes_of(self._plan.folder), *_processes_in(self._session)} - _observed_in(folder):
            line = _command_line(pid)
            if not _has_torch(pid) or is_launcher(line) or _is_of_observed(pid, folder):
                continue
            if _command_line(pid) == line:  # else it has ended meanwhile, and what was read of it may be from after
                yield line


def _observed_in(folder: str) -> set[int]:
    """The processes that have run the startup hook, or the probe."""
    names = os.listdir(folder) if os.path.isdir(folder) else []
    return {int(found[1]) for name in names if (found := _LEFT.fullmatch(name)) is not None}


def _is_of_observed(pid: int, folder: str) -> bool:
    """Whether a process is observed or belongs to one that is: a fork, or what a script starts, such as a compiler."""
    observed = _observed_in(folder)  # again: it may have been observed meanwhile
    with_probe = {one.pid for one in processes_in(folder)}
    own = _command_line(pid)
    for one in (pid, *_ancestors(pid)):
        numbers, line = _numbers(one), _command_line(one)
        if (line == own and observed & numbers) or (with_probe & numbers and not is_launcher(line)):
            return True
    return False


def _numbers(pid: int) -> set[int]:
    """The numbers of a process, by which it may know itself: in a container it has another one."""
    found = _IN_NAMESPACES.search(_read(pid, "status").decode("utf-8", "replace"))
    return {pid, *map(int, found[1].split())} if found is not None else {pid}


def _processes_in(session: int) -> Iterator[int]:
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError):  # it has just ended
            if name.isdecimal() and os.getsid(int(name)) == session:
                yield int(name)


def _ancestors(pid: int) -> Iterator[int]:
    while (found := _PARENT.search(_read(pid, "status").decode("utf-8", "replace"))) is not None:
        pid = int(found[1])
        yield pid


def _has_torch(pid: int) -> bool:
    return _TORCH in _read(pid, "maps")


def _command_line(pid: int) -> list[str]:
    return _read(pid, "cmdline").decode("utf-8", "replace").rstrip("\0").split("\0")


def _read(pid: int, name: str) -> bytes:
    """A file of a process; nothing if it has just ended, or is that of another user."""
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""

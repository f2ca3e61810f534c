"""Processes of the command that train without the probe: nothing would stop them, or bring back what they overwrite."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from ds_lint.launches.launchers import is_launcher
from ds_lint.smoke.journal import entries
from ds_lint.smoke.processes import descendants
from ds_lint.smoke.processes.leftovers import processes_of
from ds_lint.smoke.script.hooked import shortened
from ds_lint.smoke.script.processes import processes_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.processes.descendants import Descendants
    from ds_lint.smoke.processes.shared_memory import SegmentsOfRun

_EVERY = 0.5  # seconds between looks at all processes of the machine; importing torch takes longer
_TORCH = b"/libtorch_python."  # in the memory map of a process that imports torch
_IN_NAMESPACES = re.compile(r"^NSpid:([\t\d]*)$", re.MULTILINE)
_PARENT = re.compile(r"^PPid:\s*(\d+)", re.MULTILINE)


class Lookout:
    """Looks at all processes of a command while it runs; sees none where the system lists no processes (macOS)."""

    def __init__(self, plan: Plan, session: int, descendants: Descendants, segments: SegmentsOfRun) -> None:
        self._plan = plan
        self._session = session  # of the command, for processes whose environment is another one
        self._descendants = descendants
        self._segments = segments
        self._next = time.monotonic()
        self.found: str | None = None  # the command line of one that is not observed, for a message

    def sees_one(self) -> bool:
        """Whether a process imports torch, starts no ranks itself, and is not observed."""
        if time.monotonic() >= self._next:
            self.found = next(map(shortened, self._unobserved()), None)
            self._next = time.monotonic() + _EVERY
        return self.found is not None

    def _unobserved(self) -> Iterator[list[str]]:
        """The command lines of such processes."""
        folder = self._plan.own_folder
        self._descendants.note(self._plan.folder)
        self._descendants.reap(but=self._session)
        all_of_them = {*processes_of(self._plan.folder), *_processes_in(self._session), *self._descendants.alive()}
        self._segments.look(all_of_them)
        for pid in all_of_them:
            line = _command_line(pid)
            if not _has_torch(pid) or is_launcher(line) or self._is_observed(pid):
                continue
            if not _is_started_by_observed(pid, folder) and _command_line(pid) == line:
                # Else it has ended meanwhile, and what was read of it may be from after.
                yield line

    def _is_observed(self, pid: int) -> bool:
        """Whether the startup hook or the probe is in the program of a process, or of the one that it is a fork of."""
        images = entries.observed(self._plan.folder)
        process = descendants.read(pid)
        if process is None or not _is_random():  # it has ended; or any program lies where all others do
            return not _numbers(pid).isdisjoint(images)
        return any(process.image in of_one for of_one in images.values())


def _is_random() -> bool:
    """Whether the system gives each program another place in memory, which is usual."""
    try:
        with open("/proc/sys/kernel/randomize_va_space", encoding="ascii") as file:
            return file.read().strip() != "0"
    except OSError:
        return False


def _is_started_by_observed(pid: int, folder: str) -> bool:
    """Whether a process is what an observed script starts, such as a compiler."""
    with_probe = {one.pid for one in processes_in(folder)}
    return any(with_probe & _numbers(one) and not is_launcher(_command_line(one)) for one in _ancestors(pid))


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

"""What the driver says of a card's memory: read in process through NVML, else from ``nvidia-smi``.

Nothing here makes a context of CUDA, so a process that has none may ask before one begins.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from tools.gpu.setting import Result

GIB = 2**30
_MIB = 2**20
_PATIENCE = 20  # seconds of nvidia-smi
_LEAVING = 3.0  # seconds in which the memory of a process that was killed is given back
_TICK = 0.05


class Process(NamedTuple):
    """A process that computes on a card; ``used`` is None where the driver does not tell."""

    pid: int
    used: int | None


class Card(Protocol):
    """A card, as its driver describes it at this moment; all figures are bytes."""

    def total(self) -> int:
        """The memory that it has."""

    def used(self) -> int:
        """What everything on it takes."""

    def processes(self) -> list[Process]:
        """What computes on it."""


def of(gpu: str | None, *, rehearses: bool) -> Card:
    """The card with this UUID, or the first one."""
    if rehearses:
        return RehearsedCard()
    try:
        return _ByNvml(gpu)
    except Exception:  # noqa: BLE001 - no such package, no such library, or none that works after a fork
        return _BySmi(gpu)


class Before(NamedTuple):
    """A card before a process begins to use it."""

    used: int
    free: int
    processes: int

    @classmethod
    def of(cls, card: Card) -> Before:
        """As soon as nothing computes there any more, or what does so does not end."""
        end = time.monotonic() + _LEAVING
        while (others := sum(one.pid != os.getpid() for one in card.processes())) and time.monotonic() < end:
            time.sleep(_TICK)
        used = card.used()
        return cls(used, card.total() - used, others)


def own(card: Card, before: Before) -> Result:
    """The figures of this process: ``process`` by its number, ``device`` by what the card has used more since.

    In a container the driver knows this process by another number: the one process that has come is this one.
    """
    found = card.processes()
    mine = [one.used for one in found if one.pid == os.getpid()]
    if not mine and not before.processes and len(found) == 1:
        mine = [found[0].used]
    return {"process": mine[0] if mine else None, "device": card.used() - before.used}


class RehearsedCard:
    """The memory of this process stands for that of a card."""

    def total(self) -> int:
        """As an H100 has it."""
        return 80 * GIB

    def used(self) -> int:
        """What this process takes."""
        return resident()

    def processes(self) -> list[Process]:
        """The one that asks."""
        return [Process(os.getpid(), self.used())]


def resident() -> int:
    """The bytes of this process in host memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class _ByNvml:
    def __init__(self, gpu: str | None) -> None:
        self._nvml: Any = importlib.import_module("pynvml")  # of nvidia-ml-py, which not every machine has
        self._nvml.nvmlInit()
        by_uuid, by_number = self._nvml.nvmlDeviceGetHandleByUUID, self._nvml.nvmlDeviceGetHandleByIndex
        self._handle = by_uuid(gpu) if gpu else by_number(0)
        self.used()  # what cannot answer is found out now

    def total(self) -> int:
        return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).total)

    def used(self) -> int:
        return int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)

    def processes(self) -> list[Process]:
        try:
            found = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:  # not permitted, or not supported
            return []
        return [Process(int(one.pid), one.usedGpuMemory) for one in found]


class _BySmi:
    def __init__(self, gpu: str | None) -> None:
        self._gpu = gpu or "0"

    def total(self) -> int:
        return self._memory("memory.total")

    def used(self) -> int:
        return self._memory("memory.used")

    def processes(self) -> list[Process]:
        rows = [line.split(",") for line in self._ask("--query-compute-apps=pid,used_memory")]
        return [Process(int(pid), _bytes(used)) for pid, used in rows]

    def _memory(self, name: str) -> int:
        return int(self._ask(f"--query-gpu={name}")[0]) * _MIB

    def _ask(self, query: str) -> list[str]:
        command = ["nvidia-smi", f"--id={self._gpu}", query, "--format=csv,noheader,nounits"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE, check=True)
        return done.stdout.splitlines()


def _bytes(text: str) -> int | None:
    """A figure of nvidia-smi in MiB; None for ``[N/A]``."""
    return int(text) * _MIB if text.strip().isdecimal() else None

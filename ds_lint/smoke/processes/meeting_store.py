"""How the processes that a launcher started exchange messages: the store through which torch's ranks connect.

It is not a collective, because a rank that failed or hangs cannot take part in one, and rank 0 needs reports about
exactly those ranks.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import socket
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch.distributed import PrefixStore, TCPStore

from ds_lint.smoke.processes.client import PREFIX, CouldNotRun

if TYPE_CHECKING:
    from ds_lint.smoke.records.rendezvous import Rendezvous

PATIENCE = 300.0  # seconds for all ranks to come: the nodes of a job do not start at the same time
_LEAST = 60.0  # which they get in any case, to import torch
_FOR_NAMES = 10.0  # seconds for the name of a node that starts
_PREFIX = "ds-lint"
_ABSENT = "absent-rank-"  # a file
_TICK = 0.1  # seconds between two questions


def patience_of(timeout: float | None) -> float:
    """The seconds for all ranks to come under this ``--smoke-timeout``."""
    return PATIENCE if timeout is None else max(timeout, _LEAST)


class Absences:
    """Which ranks cannot come, and why, in a folder that all ranks get: they do not reach the store."""

    def __init__(self, folder: str | None) -> None:
        is_of_this_run = folder is not None and os.path.basename(folder).startswith(PREFIX)  # else it may have old ones
        self._folder = folder if is_of_this_run else None

    def note(self, rank: int, why: str) -> None:
        """Note that a rank does not come."""
        if self._folder is None:
            return
        path = os.path.join(self._folder, f"{_ABSENT}{rank}")
        with contextlib.suppress(OSError):  # this node does not see the folder
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                file.write(why)
            os.replace(f"{path}.new", path)

    def demand_none(self) -> None:
        """Raise CouldNotRun, with the reason, if a rank does not come."""
        names = os.listdir(self._folder) if self._folder is not None and os.path.isdir(self._folder) else []
        ranks = sorted(int(number) for name in names if (number := name.removeprefix(_ABSENT)).isdecimal())
        for rank in ranks[:1]:
            with open(os.path.join(str(self._folder), f"{_ABSENT}{rank}"), encoding="utf-8") as file:
                raise CouldNotRun(file.read())


class Meeting:
    """One process's connection to the store. All methods raise CouldNotRun if rank 0 has ended."""

    def __init__(self, place: Rendezvous, patience: float = PATIENCE, absences: Absences | None = None) -> None:
        self.place = place
        self.patience = patience
        absences = absences or Absences(None)
        _find_node(place)
        try:
            self._store = PrefixStore(_PREFIX, _store(place, patience, absences, is_host=_is_host(place)))
        except (RuntimeError, ValueError, OSError) as error:
            where = f"{place.address}:{place.port}"
            why = str(error).splitlines()[0]
            raise CouldNotRun(
                f"rank 0 cannot listen at {where}: {why}"
                if _is_host(place)
                else f"rank 0 does not answer at {where}: {why}"
            ) from None

    def announce(self, subject: str, message: Any) -> None:
        """Send a message; a subject gets one message."""
        self._call(self._store.set, subject, pickle.dumps(message))

    def is_announced(self, subject: str) -> bool:
        """Whether there is a message for a subject."""
        return bool(self._call(self._store.check, [subject]))

    def wait_for(self, subject: str, seconds: float | None) -> Any:
        """Wait for the message for a subject and return it; raises TimeoutError. None waits without limit."""
        deadline = time.monotonic() + seconds if seconds is not None else None
        while not self.is_announced(subject):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(subject)
            time.sleep(_TICK)
        return pickle.loads(self._call(self._store.get, subject))  # noqa: S301 - by ranks of the same job

    def _call(self, ask: Any, *arguments: Any) -> Any:
        try:
            return ask(*arguments)
        except RuntimeError:
            raise CouldNotRun("rank 0 has ended, and its store with it") from None


def store_of(place: Rendezvous, name: str, patience: float) -> PrefixStore:
    """The store for a process group with a name, in a child of a process that is connected to the others."""
    return PrefixStore(f"{_PREFIX}/{name}", _store(place, patience, Absences(None), is_host=False))


def _find_node(place: Rendezvous) -> None:
    """Look up the node of rank 0, which torch would try to as long as it waits for the ranks."""
    deadline = time.monotonic() + _FOR_NAMES
    while True:
        try:
            socket.getaddrinfo(place.address, place.port)
        except OSError as error:
            if time.monotonic() > deadline:
                why = f"{socket.gethostname()} cannot resolve {place.address}, the node of rank 0 ({error.strerror})"
                raise CouldNotRun(f"{why}: set MASTER_ADDR to an address that all nodes can reach") from None
        else:
            return
        time.sleep(1.0)


def _store(place: Rendezvous, patience: float, absences: Absences, *, is_host: bool) -> TCPStore:
    """The store, for which a thread waits: torch does not return for the signal that ends this process."""
    found = queue.SimpleQueue[TCPStore | Exception]()

    def connect() -> None:
        try:
            store = TCPStore(
                place.address,
                place.port,
                is_master=is_host,
                timeout=timedelta(seconds=patience),
                wait_for_workers=False,
            )
        except Exception as error:  # noqa: BLE001 - for the thread that waits
            found.put(error)
        else:
            found.put(store)

    threading.Thread(target=connect, daemon=True).start()
    while True:
        with contextlib.suppress(queue.Empty):
            answer = found.get(timeout=1.0)
            break
        absences.demand_none()
    if isinstance(answer, Exception):
        raise answer
    return answer


def _is_host(place: Rendezvous) -> bool:
    """Whether this process hosts the store: rank 0 does, unless torchrun does.

    Source: ``_create_c10d_store`` in torch/distributed/rendezvous.py.
    """
    return place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

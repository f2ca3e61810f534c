"""How the processes that a launcher started exchange messages: the store through which torch's ranks connect.

It is not a collective, because a rank that failed or hangs cannot take part in one, and rank 0 needs reports about
exactly those ranks.
"""

from __future__ import annotations

import os
import pickle
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch.distributed import PrefixStore, TCPStore

from ds_lint.smoke.processes.client import CouldNotRun

if TYPE_CHECKING:
    from ds_lint.smoke.records.rendezvous import Rendezvous

PATIENCE = 300.0  # seconds for all ranks to come: the nodes of a job do not start at the same time
_PREFIX = "ds-lint"
_TICK = 0.1  # seconds between two questions


class Meeting:
    """One process's connection to the store. All methods raise CouldNotRun if rank 0 has ended."""

    def __init__(self, place: Rendezvous, patience: float = PATIENCE) -> None:
        self.place = place
        self.patience = patience
        try:
            self._store = PrefixStore(_PREFIX, _store(place, patience, is_host=_is_host(place)))
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
    return PrefixStore(f"{_PREFIX}/{name}", _store(place, patience, is_host=False))


def _store(place: Rendezvous, patience: float, *, is_host: bool) -> TCPStore:
    return TCPStore(
        place.address,
        place.port,
        is_master=is_host,
        timeout=timedelta(seconds=patience),
        wait_for_workers=False,
    )


def _is_host(place: Rendezvous) -> bool:
    """Whether this process hosts the store: rank 0 does, unless torchrun does.

    Source: ``_create_c10d_store`` in torch/distributed/rendezvous.py.
    """
    return place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

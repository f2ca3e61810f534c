"""Where the processes that a launcher started tell one another things: the store that torch's ranks meet at.

A store and not a collective: a rank that failed, or hangs, cannot take part in one, and it is of those that rank 0 must
hear.
"""

from __future__ import annotations

import os
import pickle
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from torch.distributed import PrefixStore, TCPStore

from ds_lint.smoke.driver.client import CouldNotRun

if TYPE_CHECKING:
    from ds_lint.smoke.launch.rendezvous import Rendezvous

PATIENCE = 300.0  # seconds for all ranks to come: the nodes of a job do not start at the same time
_PREFIX = "ds-lint"
_TICK = 0.1  # seconds between two questions


class Meeting:
    """One process's end of the store. All methods raise CouldNotRun where it is gone, and rank 0 with it."""

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
                else f"nobody answers at {where}, where rank 0 should be: {why}"
            ) from None

    def announce(self, subject: str, said: Any) -> None:
        """Say something, once."""
        self._call(self._store.set, subject, pickle.dumps(said))

    def is_announced(self, subject: str) -> bool:
        """Whether somebody has said something."""
        return bool(self._call(self._store.check, [subject]))

    def wait_for(self, subject: str, seconds: float | None) -> Any:
        """What somebody says, once he does; raises TimeoutError where he takes longer. None waits for ever."""
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
            raise CouldNotRun("rank 0 is gone, and the store with it") from None


def store_of(place: Rendezvous, name: str, patience: float) -> PrefixStore:
    """The store for a process group of one name, in a process below one that meets the others."""
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
    """Whether this process must hold the store: rank 0 does, where not torchrun itself does.

    Source: ``_create_c10d_store`` in torch/distributed/rendezvous.py.
    """
    return place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"

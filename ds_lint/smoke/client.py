"""The command line's side of the warm process: starts it, gives it jobs, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from ds_lint.smoke.messages import Ended, Entered, Ready, Started
from ds_lint.smoke.traces import port_of, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.job import Job

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PATIENCE = 10.0  # seconds for the warm process to remove its things and go
PREFIX = "ds-lint-smoke-"

# What launchers set for the ranks of their own run; ours get theirs.
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "CROSS_", "MASTER_", "ACCELERATE_", "TORCHELASTIC_", "GROUP_", "ROLE_")


class CouldNotRun(Exception):  # noqa: N818 - it says nothing about the config
    """The run could not be made; the message says why, in one sentence."""


class Pool:
    """The warm process, from its start to its end. Close it, or use it as a context manager."""

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix=PREFIX)
        self.log = os.path.join(self.folder, "pool.log")
        self._groups: list[int] = []
        self._ready: Ready | None = None
        ours, theirs = socket.socketpair()
        with open(self.log, "wb") as log, theirs:
            self._process = subprocess.Popen(  # noqa: S603 - ourselves
                [sys.executable, "-m", "ds_lint.smoke.pool", str(theirs.fileno()), self.folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                cwd=self.folder,  # no module of the project stands in for a library
                env=_environment(),
                start_new_session=True,
            )
        self._connection = Connection(ours.detach())

    def __enter__(self) -> Pool:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the libraries; raises CouldNotRun where they cannot be imported."""
        if self._ready is None:
            said = self._receive("importing the libraries")
            assert isinstance(said, Ready)  # noqa: S101 - it says so first
            self._ready = said
        if self._ready.error:
            raise CouldNotRun(
                f"{self._ready.error}; a smoke run takes torch, deepspeed, transformers and accelerate, installed "
                f"where ds-lint is (pip install 'ds-lint[smoke]'): {sys.executable} lacks them"
            )
        return self._ready.versions

    @property
    def known_versions(self) -> dict[str, str]:
        """The same, as far as they are known."""
        return self._ready.versions if self._ready is not None else {}

    def run(self, jobs: list[Job], on_phase: Callable[[str, str], None] | None = None) -> list[Ended]:
        """Run jobs beside each other; ``on_phase`` hears of the parts and the phases that rank 0 enters."""
        _ = self.versions
        self._connection.send(jobs)
        while True:
            said = self._receive("a run")
            if isinstance(said, Started):
                self._groups = said.groups
            elif isinstance(said, Entered):
                if on_phase is not None:
                    on_phase(said.part, said.phase)
            else:
                self._groups = []
                assert isinstance(said, list)  # noqa: S101 - what is left is how the jobs ended
                return said

    def _receive(self, doing: str) -> object:
        try:
            return self._connection.recv()
        except (EOFError, OSError):
            status = self._process.wait()
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            hint = ", usually out of memory" if status == -signal.SIGKILL else ""
            raise CouldNotRun(f"the process of the smoke run {how}{hint} while {doing}") from None

    def close(self) -> None:
        """End it, and whatever it left."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        for group in [self._process.pid, *self._groups]:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        self._process.wait()
        _remove(self.folder)
        sweep(self._groups, port_of(self._process.pid))


@contextlib.contextmanager
def ended_by_signal() -> Iterator[None]:
    """Let SIGTERM end this process as Ctrl-C does: with everything put away."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _remove(folder: str) -> None:
    """Remove a folder in which ranks that are just being killed may still write."""
    for _ in range(5):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)


def _environment() -> dict[str, str]:
    """Ours, without what a launcher or a GPU would bring in."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OF_LAUNCHERS)}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGE, os.environ.get("PYTHONPATH")))),
        "CUDA_VISIBLE_DEVICES": "",
        "DS_ACCELERATOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "warning",
        "DEEPSPEED_LOG_LEVEL": "warning",
        "PYTHONUNBUFFERED": "1",
    }

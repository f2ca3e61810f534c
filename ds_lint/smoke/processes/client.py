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

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.smoke.processes import locks, logs
from ds_lint.smoke.processes.leftovers import MARK, end_processes_of, port_of, sweep
from ds_lint.smoke.records.messages import MOST_IMPORTING, Ended, Entered, Ready, Started, Unable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.diagnostics.verdict import RunNode
    from ds_lint.smoke.records.job import Job

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
_TICK = 0.5  # seconds between looks at whether the warm process is still there
_IDLE = 0.5  # seconds for the warm process to go when it has nothing to do
_PATIENCE = 10.0  # and to end ranks, remove its things, and go
_PROBE = 2**20  # bytes that a run writes at the least
PREFIX = "ds-lint-smoke-"
_HANG_UP = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has none
_ENDING = (signal.SIGINT, signal.SIGTERM, _HANG_UP)
VISIBLE_GPUS = "DS_LINT_CUDA_VISIBLE_DEVICES"  # the GPUs that the user allows; a warm process for CPU ranks sees none
OF_CPU_RANKS = {"DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}

# What launchers set for the ranks of their own run; the ranks here get their own.
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "CROSS_", "MASTER_", "ACCELERATE_", "TORCHELASTIC_", "GROUP_", "ROLE_")

# Images for GPUs set it, and it lets every fp32 product round its factors where no `--tf32` says otherwise.
_TF32 = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"


NEEDS_FORK = "training runs need Linux or macOS, where ds-lint forks their ranks; on Windows, start ds-lint in WSL 2"


class CouldNotRun(Exception):  # noqa: N818 - it says nothing about the config
    """The run was not possible; the message says why, in one sentence."""


class Pool:
    """The warm process, from its start to its end. Close it, or use it as a context manager.

    One that dies in a run is started again for the next. DeepSpeed chooses its accelerator when it is imported, so
    ranks on GPUs have a warm process of their own.
    """

    def __init__(self, folder: str | None = None, mode: str = CPU) -> None:
        if not hasattr(os, "fork"):
            raise CouldNotRun(NEEDS_FORK)
        self.mode = mode
        self._below = folder
        self._of_gpus: Pool | None = None
        self.folder = own_folder(folder)
        self._kept: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._started = Started([])
        self._ready: Ready | None = None
        self._without_unknowns: dict[str, str] = {}
        try:
            self._start()
        except BaseException:  # Ctrl-C, too
            self.close(is_over=False)
            raise

    def __enter__(self) -> Pool:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_over=kind is None or issubclass(kind, Exception))

    def of(self, mode: str) -> Pool:
        """The warm process for ranks of this mode, which ends with this one; that of GPUs starts when it is needed."""
        if mode != CUDA or self.mode == CUDA:
            return self
        if self._of_gpus is None:
            self._of_gpus = Pool(self._below, CUDA)
        return self._of_gpus

    @property
    def log(self) -> str:
        """The output of the libraries during their import."""
        return os.path.join(self.folder, "pool.log")

    @property
    def versions(self) -> dict[str, str]:
        """The versions of the libraries; raises CouldNotRun if the import fails."""
        if self._process is None:
            self._start()
        if self._ready is None:
            message = self._receive("it imported the libraries", time.monotonic() + MOST_IMPORTING)
            assert isinstance(message, Ready)  # noqa: S101 - its first message
            self._ready = message
            self._without_unknowns = message.versions
        if self._ready.error:
            raise CouldNotRun(self._ready.error)
        return self._ready.versions

    @property
    def known_versions(self) -> dict[str, str]:
        """The same, as far as they are known."""
        return self._without_unknowns

    @property
    def has_cuda(self) -> bool:
        """Whether this torch computes on GPUs."""
        return self._ready is not None and self._ready.has_cuda

    def nodes(self, _log: str | None) -> list[RunNode]:
        """The nodes of the ranks, if there are several."""
        return []

    @property
    def abandoned_locks(self) -> dict[str, str]:
        """The locks that killed builds of ops have left on this machine, by the op."""
        return self._ready.locks if self._ready is not None else {}

    def run(self, jobs: list[Job], on_phase: Callable[[str, str], None] | None = None) -> list[Ended]:
        """Run jobs in parallel; ``on_phase`` gets the parts and the phases that rank 0 enters."""
        _ = self.versions
        deadline = time.monotonic() + max(job.seconds for job in jobs) + _PATIENCE  # the warm process keeps the first
        if any(job.mode == CUDA for job in jobs):
            deadline += MOST_IMPORTING
        with contextlib.suppress(OSError):  # it has ended, which shows when nothing is received
            self._connection.send(jobs)
        while True:
            message = self._receive("ranks ran", deadline)
            if isinstance(message, Started):
                self._started = message
            elif isinstance(message, Entered):
                if on_phase is not None:
                    on_phase(message.part, message.phase)
            elif isinstance(message, Unable):
                raise CouldNotRun(message.reason)
            else:
                self._started = Started([])
                assert isinstance(message, list)  # noqa: S101 - what is left is how the jobs ended
                return message

    def keep_log(self, folder: str | None = None) -> str | None:
        """A file that stays, with the logs of a run and of the warm process; None if they are empty."""
        names = sorted(os.listdir(folder)) if folder is not None and os.path.isdir(folder) else []
        found = [os.path.join(folder or "", name) for name in names if name.endswith(".log")]
        path = logs.keep([*found, self.log], self.folder, len(self._kept) + 1)
        if path is not None:
            self._kept.append(path)
        return path

    def end_ranks(self) -> None:
        """End the ranks of the current run, which ends the run. Any thread may call it."""
        for group in self._started.groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)

    def interrupt(self) -> None:
        """End the process at once, even while it imports: who waits for it gets CouldNotRun. Any thread may call it."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)

    def close(self, *, is_over: bool = True) -> None:
        """End the process, and remove what it left; if interrupted, also the logs, which are not reported then."""
        with undisturbed():
            if self._of_gpus is not None:
                self._of_gpus.close(is_over=is_over)
            if self._process is not None:
                if is_over:
                    with contextlib.suppress(OSError):
                        self._connection.send(None)
                self._connection.close()
                self._put_away(self._process.pid, _end(self._process))
            remove_folder(self.folder)
            if not is_over:
                logs.remove(self._kept)

    def _start(self) -> None:
        os.makedirs(self.folder, exist_ok=True)  # one that ended has removed it
        ours, theirs = socket.socketpair()
        with theirs, open(self.log, "ab") as log:
            self._connection = Connection(ours.detach())
            try:
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    [sys.executable, "-m", "ds_lint.smoke.rank.pool", str(theirs.fileno()), self.folder],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                    cwd=self.folder,  # no module of the project stands in for a library
                    env=_environment(self.mode) | {MARK: self.folder},
                    start_new_session=True,
                )
            except OSError as error:
                raise CouldNotRun(f"cannot start a process for the smoke run: {error.strerror}") from None

    def _receive(self, since: str, deadline: float) -> object:
        assert self._process is not None  # noqa: S101 - whoever asks has started it
        try:
            while not self._connection.poll(_TICK):
                if self._process.poll() is not None and not self._connection.poll():
                    raise EOFError  # noqa: TRY301 - something that it started keeps the connection open
                if time.monotonic() > deadline:
                    self._kill()
                    raise CouldNotRun(f"the process of the smoke run did not answer while {since}")
            return self._connection.recv()
        except (EOFError, OSError):
            status = self._kill()
            how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            hint = "; the system usually does this when memory runs out" if status == -signal.SIGKILL else ""
            raise CouldNotRun(f"the process of the smoke run {how} while {since}{hint}") from None

    def _kill(self) -> int:
        """End a process that no longer answers; its exit status."""
        assert self._process is not None  # noqa: S101 - a caller waits for it
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_IDLE)  # it has closed its connection, and may be about to end
        if self._process.returncode is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        status = self._process.wait()
        self._connection.close()
        self._put_away(self._process.pid, status)
        return status

    def _put_away(self, pid: int, status: int) -> None:
        """Remove what the process did not remove itself."""
        started, self._started = self._started, Started([])
        self._process, self._ready = None, None
        for group in started.groups if status else ():  # else other processes may have the ids by now
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        end_processes_of(self.folder)
        locks.remove(locks.stale(started.locks))
        sweep(started.groups, port_of(pid))


@contextlib.contextmanager
def ended_by_signal() -> Iterator[None]:
    """Let SIGTERM, and a terminal that closes, end this process like Ctrl-C, with everything removed."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in _ENDING}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it
    signal.signal(signal.SIGTERM, leave)
    if before[_HANG_UP] != signal.SIG_IGN:  # as under nohup
        signal.signal(_HANG_UP, leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ending_signal(ended: BaseException) -> str:
    """What has ended this process, for people: ``Ctrl-C``, ``SIGTERM``."""
    if isinstance(ended, SystemExit) and isinstance(ended.code, int):
        return signal.Signals(ended.code - 128).name
    return "Ctrl-C"


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Delay signals that would end this process during its cleanup, which takes seconds at most."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(process: subprocess.Popen[bytes]) -> int:
    """Wait for a process whose connection is closed, then terminate it, then kill it; its exit status."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_IDLE)
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_PATIENCE)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def own_folder(below: str | None = None, option: str = "--smoke-folder") -> str:
    """A new writable folder; inside the one that an option gives, if any."""
    wanted = below or os.environ.get("TMPDIR") or None
    place = f"{wanted} ({option if below else 'TMPDIR'})" if wanted else "any of the usual folders"
    try:
        folder = os.path.abspath(tempfile.mkdtemp(prefix=PREFIX, dir=wanted))
        try:
            with open(os.path.join(folder, "probe"), "wb") as probe:
                probe.write(bytes(_PROBE))
            os.unlink(probe.name)
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            place = os.path.dirname(folder)
            raise
    except OSError as error:
        raise CouldNotRun(f"cannot write temporary files to {place}: {error.strerror}") from None
    return folder


def remove_folder(folder: str) -> None:
    """Remove a folder in which ranks may still write while they are killed."""
    for _ in range(5):
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            return
        time.sleep(0.1)


def _environment(mode: str) -> dict[str, str]:
    """The environment of this process, without the variables of launchers; on CPU ranks without GPUs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith((*_OF_LAUNCHERS, _TF32))}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, (_PACKAGE, os.environ.get("PYTHONPATH")))),
        **({VISIBLE_GPUS: os.environ["CUDA_VISIBLE_DEVICES"]} if "CUDA_VISIBLE_DEVICES" in os.environ else {}),
        # GPUs are asked of the driver's library, not of CUDA, which a fork does not survive.
        **({"DS_ACCELERATOR": "cuda", "PYTORCH_NVML_BASED_CUDA_CHECK": "1"} if mode == CUDA else OF_CPU_RANKS),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",  # one that has threads cannot be forked
        "MKL_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "warning",
        "DEEPSPEED_LOG_LEVEL": "warning",
        "PYTHONUNBUFFERED": "1",
    }

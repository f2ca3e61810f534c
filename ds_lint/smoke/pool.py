"""The warm process: it imports the libraries once, and forks the ranks of every run.

It is a process of its own, in a session of its own, so that whatever ends the command line, somebody is left to end the
ranks and to remove what they made. It talks to ``client.py`` through a socket; when that closes, it goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import shutil
import signal
import sys
import time
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any

from ds_lint.facts.smoke import RankEnd
from ds_lint.smoke.job import EXPORT, Evidence, Job
from ds_lint.smoke.messages import Ended, Entered, Ready, Started
from ds_lint.smoke.traces import sweep

GRACE = 3.0  # seconds that the other ranks get once one has failed; they fail of themselves when it is gone
_TICK = 0.25  # seconds between looks at processes that ended without a word
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Gone(Exception):  # noqa: N818 - nothing is wrong: the command line has ended
    """Nobody listens any more."""


def main(descriptor: int, root: str) -> None:
    """Serve jobs from the socket until it closes; ``root`` is removed then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command line decides
    signal.signal(signal.SIGTERM, _leave)
    connection = Connection(descriptor)
    try:
        connection.send(_preload(root))
        while True:
            connection.send(_run(connection.recv(), connection))
    except (EOFError, OSError, Gone, SystemExit):
        pass
    finally:
        shutil.rmtree(root, ignore_errors=True)
        os._exit(0)  # the libraries' exit handlers have nothing to do here


def _leave(_number: int, _frame: Any) -> None:
    raise Gone


def _preload(root: str) -> Ready:
    """Import all that the ranks need, so that they start warm; no thread and no process group is made here."""
    began = time.perf_counter()
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(root, "inductor"))  # made at import
    try:
        import accelerate
        import deepspeed
        import torch
        import transformers

        import ds_lint.smoke.worker  # noqa: F401 - with everything below it
    except ImportError as error:
        return Ready(error=str(error))
    import deepspeed.runtime.bf16_optimizer
    import deepspeed.runtime.zero.stage3
    import deepspeed.runtime.zero.stage_1_and_2

    with contextlib.suppress(ImportError):  # since 0.17.6
        import deepspeed.runtime.zero.muon.muon_optimizer
    gc.collect()
    gc.freeze()  # the collections of the ranks leave the shared pages alone
    libraries = {"torch": torch, "deepspeed": deepspeed, "transformers": transformers, "accelerate": accelerate}
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    versions |= {name: module.__version__ for name, module in libraries.items()}
    return Ready(versions, seconds=time.perf_counter() - began)


# ------------------------------------------------------------------------------------------------------- runs of ranks


class _Rank:
    """A forked rank, as the pool sees it."""

    def __init__(self, job: Job, number: int) -> None:
        self.job = job
        self.number = number
        self.phase = "start"
        self.evidence: Evidence | None = None
        self.end: RankEnd | None = None
        self.ended_at = 0.0
        self.log = os.path.join(job.folder, f"{job.part}-rank{number}.log")
        self.pipe, theirs = Pipe(duplex=False)
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            self.pipe.close()
            _be_rank(self, theirs, parent)
        theirs.close()

    def listen(self) -> None:
        """Take what the rank says; its end, where it says no more."""
        try:
            while self.pipe.poll():
                said = self.pipe.recv()
                if isinstance(said, str):
                    self.phase = said
                else:
                    self.evidence = said
        except (EOFError, OSError):
            self.reap(block=True)

    def reap(self, *, block: bool = False) -> None:
        """Note how the process ended, if it has."""
        if self.end is not None:
            return
        pid, status = os.waitpid(self.pid, 0 if block else os.WNOHANG)
        if pid == 0:
            return
        with contextlib.suppress(EOFError, OSError):
            while self.evidence is None and self.pipe.poll():
                said = self.pipe.recv()
                self.evidence = said if isinstance(said, Evidence) else None
        self._conclude(status)

    def _conclude(self, status: int) -> None:
        self.ended_at = time.monotonic()
        if self.evidence is not None:  # whatever the libraries did on their way out
            raised = self.evidence.raised
            self.end = RankEnd(
                self.number, "exception" if raised else "ok", self.evidence.phase, str(raised or "") or None
            )
        elif os.WIFSIGNALED(status):
            self.end = RankEnd(self.number, "signal", self.phase, signal.Signals(os.WTERMSIG(status)).name)
        else:
            code = os.waitstatus_to_exitcode(status)
            self.end = RankEnd(self.number, "exception", self.phase, f"the process ended with status {code}")

    def kill(self, why: str) -> None:
        """End the rank with everything it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        if self.end is None:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            self.end = RankEnd(self.number, why, self.phase)
        self.pipe.close()
        sweep([self.pid])


def _be_rank(rank: _Rank, connection: Connection, parent: int) -> None:
    """In the child: do the work and never return."""
    status = 1
    try:
        os.setsid()  # the pool ends the group
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        log = os.open(rank.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(rank.job.folder)
        from ds_lint.smoke.worker import work

        connection.send(work(rank.job, rank.number, connection.send))
        status = 0
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # an abort at exit, after all is done, is nobody's business


def _run(jobs: list[Job], connection: Connection) -> list[Ended]:
    """Run jobs beside each other, every rank of them, and say how each ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    ranks: list[_Rank] = []
    try:
        for job in jobs:
            ranks += [_Rank(job, number) for number in range(1 if job.part == EXPORT else job.world_size)]
        connection.send(Started([rank.pid for rank in ranks]))
        _await(ranks, connection)
    finally:
        for rank in ranks:
            rank.kill("ended")
    return [
        Ended([rank.end for rank in ranks if rank.job is job and rank.end], [r.evidence for r in ranks if r.job is job])
        for job in jobs
    ]


def _await(ranks: list[_Rank], connection: Connection) -> None:
    """Until all ranks have ended, or time is up; raises Gone where the command line has ended."""
    deadlines = {id(rank.job): time.monotonic() + rank.job.seconds for rank in ranks}
    said: dict[str, str] = {}
    while running := [rank for rank in ranks if rank.end is None]:
        wait([connection, *(rank.pipe for rank in running)], _TICK)
        if connection.poll():
            raise Gone  # it says nothing while it waits, so this is its end
        for rank in running:
            rank.listen()
            rank.reap()
            if rank.end is not None and rank.end.exit != "ok":
                deadlines[id(rank.job)] = min(deadlines[id(rank.job)], rank.ended_at + GRACE)
            if rank.number == 0 and said.get(rank.job.part) != rank.phase:
                said[rank.job.part] = rank.phase
                connection.send(Entered(rank.job.part, rank.phase))
            if rank.end is None and time.monotonic() > deadlines[id(rank.job)]:
                rank.kill("ended" if any(_failed(other, rank.job) for other in ranks) else "timeout")


def _failed(rank: _Rank, job: Job) -> bool:
    """Whether a rank of this job has failed of itself."""
    return rank.job is job and rank.end is not None and rank.end.exit in ("exception", "signal")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

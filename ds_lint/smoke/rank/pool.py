"""The warm process: it imports the libraries once, and forks the ranks of every run.

It is a separate process in its own session, so that it can end the ranks and remove their files if the command line is
killed. It talks to ``client.py`` through a socket, and ends when that closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import os
import pickle
import shlex
import signal
import sys
import time
import traceback
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any

from ds_lint.diagnostics.verdict import CUDA, RankEnd
from ds_lint.smoke.processes import locks, logs
from ds_lint.smoke.processes.client import OF_CPU_RANKS, VISIBLE_GPUS, remove_folder
from ds_lint.smoke.processes.kept_files import kernel_caches
from ds_lint.smoke.processes.leftovers import end_processes_of, port_of, sweep
from ds_lint.smoke.rank.libraries import why_not
from ds_lint.smoke.records import hanging
from ds_lint.smoke.records.job import EXPORT, REFERENCE, SHARED, WORLD, Evidence, Job
from ds_lint.smoke.records.messages import IMPORTING, MOST_IMPORTING, Ended, Entered, Ready, Started, Unable

if TYPE_CHECKING:
    from collections.abc import Iterator

GRACE = 3.0  # seconds that the other ranks get once one has failed; they fail of themselves when it is gone
_TICK = 0.25  # seconds between looks at processes that ended silently
_SOON = 0.01  # and at those that sent their last message
_LOOK = 0.5  # seconds between looks, during imports, at whether the command line is still there
_BEFORE_THE_END = 0.2  # seconds for a rank that hangs to write down where
# What the libraries import when an engine or a model is made: once, and not in each rank of each part.
_LATER = (
    "cpuinfo",
    "deepspeed.module_inject.auto_ep_layer",
    "deepspeed.runtime.superoffload.superoffload_stage3",
    "torch.utils.serialization.config",
    "transformers.models.llama.modeling_llama",
)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class ParentEnded(BaseException):
    """The command line has ended. A BaseException, so that no ``except Exception`` of a library catches it."""


def main(descriptor: int, root: str) -> None:
    """Serve jobs from the socket until it closes; ``root`` is removed then."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command line decides
    signal.signal(signal.SIGTERM, _leave)
    connection = Connection(descriptor)
    is_over, status = False, 1
    try:
        with _leaving_with(connection, root):
            ready = _preload(root)
        connection.send(ready)
        while (jobs := connection.recv()) is not None:
            connection.send(_answer(jobs, connection, root))
        is_over, status = True, 0
    except (EOFError, ConnectionError, ParentEnded):
        is_over, status = _is_dismissed(connection), 0
    except BaseException:  # noqa: BLE001 - whatever it is, the log has it and the command line looks there
        traceback.print_exc()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if status == 0:
            _clean_up(root, is_over=is_over)
        os._exit(status)  # the libraries' exit handlers have nothing to do here


def _clean_up(root: str, *, is_over: bool) -> None:
    """Remove what the run has left; if it is not over, the logs too, which no process is left to report."""
    end_processes_of(root, but=[os.getpid()])
    remove_folder(root)
    if not is_over:
        logs.remove(logs.of_run(root))


def _is_dismissed(connection: Connection) -> bool:
    """Whether the command line finished and was not killed."""
    try:
        return connection.poll() and connection.recv() is None
    except (EOFError, OSError):
        return False


def _leave(_number: int, _frame: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise ParentEnded


@contextlib.contextmanager
def _leaving_with(connection: Connection, root: str) -> Iterator[None]:
    """End in the middle of an import if the command line has ended; before that it sends nothing.

    Nothing is raised: a library may catch it, or be in the middle of C++ that no exception may leave.
    """

    def look(_number: int, _frame: Any) -> None:
        if connection.poll():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.setitimer(signal.ITIMER_REAL, 0)
            _clean_up(root, is_over=_is_dismissed(connection))
            os._exit(0)

    signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, _LOOK, _LOOK)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _preload(root: str) -> Ready:
    """Import all that the ranks need, so that they start warm; no thread and no process group is made here."""
    began = time.perf_counter()
    gc.disable()  # an import makes next to no garbage, and looking for it takes a tenth of the time
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(root, "inductor"))  # made at import
    try:
        import accelerate
        import deepspeed
        import deepspeed.runtime.bf16_optimizer
        import deepspeed.runtime.zero.stage3
        import deepspeed.runtime.zero.stage_1_and_2
        import torch
        import transformers

        import ds_lint.smoke.rank.run  # noqa: F401 - with everything below it

        _preload_muon()
        for name in _LATER:
            with contextlib.suppress(Exception):  # not every release has it; what a rank needs of it, the rank imports
                importlib.import_module(name)
    except Exception as error:  # noqa: BLE001 - a library that is broken raises anything
        traceback.print_exc()
        return Ready(error=why_not(error))
    gc.freeze()  # the collections of the ranks leave the shared pages alone
    gc.enable()
    libraries = {"torch": torch, "deepspeed": deepspeed, "transformers": transformers, "accelerate": accelerate}
    versions = {"python": ".".join(map(str, sys.version_info[:3]))}
    versions |= {name: str(module.__version__) for name, module in libraries.items()}  # torch has a class of its own
    has_cuda = bool(torch.version.cuda or getattr(torch.version, "hip", None))
    return Ready(versions, seconds=time.perf_counter() - began, has_cuda=has_cuda, locks=locks.abandoned())


def _preload_muon() -> None:
    """Import what every ZeRO optimizer asks for Muon, without torch's compiler, which the ranks never start.

    The decorators of its kernels import all of the compiler, which takes as long as a third of the other imports.
    """
    import torch

    compiling = torch.compile
    torch.compile = _left_alone
    try:
        import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401 - for the ranks
    except ImportError:
        return  # before 0.17.6
    finally:
        torch.compile = compiling


def _left_alone(function: Any = None, **_: Any) -> Any:
    """``torch.compile`` that compiles nothing, as a decorator too."""
    return function if function is not None else _left_alone


# ------------------------------------------------------------------------------------------------------- runs of ranks


class _Rank:
    """A forked rank, as the pool sees it."""

    def __init__(self, job: Job, number: int, inherited: list[Connection]) -> None:
        self.job = job
        self.number = number
        self.phase = "start"
        self.evidence: Evidence | None = None
        self.end: RankEnd | None = None
        self.ended_at = 0.0
        self.is_silent = False  # it closed its end of the pipe
        self.waits = False  # in a collective, when its time was up
        self.log = os.path.join(job.folder, f"{job.part}-rank{number}.log")
        self.pipe, theirs = Pipe(duplex=False)
        parent = os.getpid()
        try:
            self.pid = os.fork()
        except OSError:
            theirs.close()
            self.pipe.close()
            raise
        if self.pid == 0:
            _be_rank(self, theirs, parent, [self.pipe, *inherited])
        theirs.close()

    def listen(self) -> None:
        """Receive a message of the rank."""
        try:
            while not self.is_silent and self.pipe.poll():
                message = self.pipe.recv()
                if isinstance(message, str):
                    self.phase = message
                else:
                    self.evidence = message
        except (EOFError, OSError):
            self.is_silent = True

    def reap(self) -> None:
        """Note how the process ended, if it has."""
        if self.end is not None:
            return
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid == 0:
            return
        self._end_group()
        self.listen()  # its last words
        self.ended_at = time.monotonic()
        self.end = self._ended(status)

    def _ended(self, status: int) -> RankEnd:
        if self.evidence is not None:  # whatever the libraries did on their way out
            raised = self.evidence.raised
            return RankEnd(self.number, "exception" if raised else "ok", self.evidence.phase, str(raised or "") or None)
        if os.WIFSIGNALED(status):
            return RankEnd(self.number, "signal", self.phase, signal.Signals(os.WTERMSIG(status)).name)
        code = os.waitstatus_to_exitcode(status)
        return RankEnd(self.number, "exception", self.phase, f"the process ended with status {code}")

    def kill(self, why: str) -> None:
        """End the rank and all processes that it started."""
        if self.end is None:
            self._end_group()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)  # it may have no group yet
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
            place = hanging.place(self.log) if why == "timeout" else None
            self.waits = place is not None and place.waits
            self.end = RankEnd(self.number, why, self.phase, str(place) if place is not None else None)
        self.pipe.close()
        sweep([self.pid])

    def tell_place(self) -> None:
        """Let the rank write its stack into its log."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR1)

    def _end_group(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


def _be_rank(rank: _Rank, connection: Connection, parent: int, inherited: list[Connection]) -> None:
    """In the child: do the work and never return."""
    import resource  # Windows has none, nor ranks

    status = 1
    try:
        os.setsid()  # the pool ends the group
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for other in inherited:  # else who listens there does not hear that this process has ended
            other.close()
        log = os.open(rank.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        faulthandler.enable(2)
        faulthandler.register(signal.SIGUSR1, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # gigabytes, of a process that imported torch
        os.chdir(rank.job.folder)
        if rank.job.mode == CUDA and rank.job.part in SHARED:
            variables = _of_gpu_rank(rank.job)
            if not _takes_gpus(variables):
                _become_fresh(rank, connection, variables)
        elif rank.job.mode != CUDA and _is_for_gpus():  # DeepSpeed has chosen its accelerator
            _become_fresh(rank, connection, OF_CPU_RANKS)
        from ds_lint.smoke.rank.run import work

        connection.send(work(rank.job, rank.number, connection.send))
        status = 0
    except BaseException:  # noqa: BLE001 - an exception outside the run goes to the log
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)  # skips exit handlers, which may abort after all is done


def _is_for_gpus() -> bool:
    """Whether this process has imported the libraries for GPUs."""
    return os.environ["DS_ACCELERATOR"] == "cuda"


def _of_gpu_rank(job: Job) -> dict[str, str]:
    """The variables of a rank on a GPU: the GPUs that it sees, and where compiled kernels stay."""
    variables = {**kernel_caches(), "TORCH_EXTENSIONS_DIR": locks.folder(), "DS_ACCELERATOR": "cuda"}
    if job.gpus:  # in the order of nvidia-smi, which has numbered them
        variables |= {"CUDA_VISIBLE_DEVICES": ",".join(job.gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    elif VISIBLE_GPUS in os.environ:
        variables["CUDA_VISIBLE_DEVICES"] = os.environ[VISIBLE_GPUS]
    return variables


def _takes_gpus(variables: dict[str, str]) -> bool:
    """Make this forked process one that computes on GPUs; False where it cannot be.

    It cannot if the libraries were imported for a CPU, or if anything has initialized CUDA in the warm process.
    """
    if not _is_for_gpus():
        return False
    import deepspeed
    import torch

    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    os.environ.update(variables)
    try:
        torch.cuda.init()
        deepspeed.get_accelerator().available_memory()  # which asks the driver's library, used before the fork too
    except Exception:  # noqa: BLE001 - a process that has imported nothing tells whether the GPU or the fork is to blame
        traceback.print_exc()
        return False
    return True


def _become_fresh(rank: _Rank, connection: Connection, variables: dict[str, str]) -> None:
    """Become a process that has imported nothing."""
    path = os.path.join(rank.job.folder, f"{rank.job.part}-rank{rank.number}.job")
    with open(path, "wb") as file:
        pickle.dump(rank.job, file)
    kept = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", VISIBLE_GPUS)}
    os.set_inheritable(connection.fileno(), True)
    command = [sys.executable, "-m", "ds_lint.smoke.rank.fresh", str(connection.fileno()), path, str(rank.number)]
    os.execve(sys.executable, command, {**kept, **variables})  # noqa: S606 - ourselves


def _answer(jobs: list[Job], connection: Connection, root: str) -> list[Ended] | Unable:
    """How the jobs ended, or why they could not be started."""
    may_stay = locks.settle() if any(job.builds_ops for job in jobs) else []
    if stale := locks.stale(may_stay):
        return Unable(
            f"a killed build of DeepSpeed's ops left its lock, and every later build waits for it without end; "
            f"remove it: rm {shlex.join(stale)}"
        )
    try:
        return _run(jobs, connection, may_stay)
    finally:
        end_processes_of(root, but=[os.getpid()])
        sweep([], port_of(os.getpid()))
        locks.remove(locks.stale(may_stay))


def _run(jobs: list[Job], connection: Connection, may_stay: list[str]) -> list[Ended] | Unable:
    """Run jobs in parallel, with all their ranks, and report how each ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    ranks: list[_Rank] = []
    try:
        try:
            for job in jobs:
                for number in _numbers(job):
                    ranks.append(_Rank(job, number, [connection, *(rank.pipe for rank in ranks)]))
        except OSError as error:
            return Unable(f"cannot start more than {len(ranks)} ranks: {error.strerror}")
        connection.send(Started([rank.pid for rank in ranks], may_stay))
        _await(ranks, connection)
    finally:
        for rank in ranks:
            rank.kill("ended")
    of_jobs = [[rank for rank in ranks if rank.job is job] for job in jobs]
    return [
        Ended(
            ends=[rank.end for rank in own if rank.end],
            evidence=[rank.evidence for rank in own],
            waiting=[rank.number for rank in own if rank.waits],
        )
        for own in of_jobs
    ]


def _numbers(job: Job) -> list[int]:
    """The ranks of a job that are made here; of a simulated world the last too, whose shares are padded."""
    if job.part == WORLD:
        return [0, job.world_size - 1]
    if job.part in (EXPORT, REFERENCE):
        return [0]
    return list(range(job.world_size)) if job.seat is None else [job.seat.rank]


def _await(ranks: list[_Rank], connection: Connection) -> None:
    """Wait until all ranks have ended, or time is up; raises ParentEnded if the command line has ended."""
    began = time.monotonic()
    deadlines = {id(rank.job): began + rank.job.seconds for rank in ranks}
    phases: dict[str, str] = {}
    while running := [rank for rank in ranks if rank.end is None]:
        talking = [rank.pipe for rank in running if not rank.is_silent]
        wait([connection, *talking], _TICK if len(talking) == len(running) else _SOON)
        if connection.poll():
            raise ParentEnded  # it says nothing while it waits, so this is its end
        for rank in running:
            rank.listen()
            rank.reap()
            if rank.phase == IMPORTING and not rank.end and not any(_failed(other, rank.job) for other in ranks):
                # The others of the job wait for it, and none of this counts as time of the run.
                deadlines[id(rank.job)] = min(time.monotonic(), began + MOST_IMPORTING) + rank.job.seconds
            if rank.end is not None and rank.end.exit != "ok":
                deadlines[id(rank.job)] = min(deadlines[id(rank.job)], rank.ended_at + GRACE)
            if (rank.number == 0 or rank.job.seat is not None) and phases.get(rank.job.part) != rank.phase:
                phases[rank.job.part] = rank.phase
                connection.send(Entered(rank.job.part, rank.phase))
        late = [rank for rank in running if rank.end is None and time.monotonic() > deadlines[id(rank.job)]]
        _end_late(late, ranks)


def _end_late(late: list[_Rank], ranks: list[_Rank]) -> None:
    """End ranks whose time is up, after they have written their stacks."""
    for rank in late:
        rank.tell_place()
    if late:
        time.sleep(_BEFORE_THE_END)
    for rank in late:
        rank.kill("ended" if any(_failed(other, rank.job) for other in ranks) else "timeout")


def _failed(rank: _Rank, job: Job) -> bool:
    """Whether a rank of this job has failed of itself."""
    return rank.job is job and rank.end is not None and rank.end.exit in ("exception", "signal")


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])

"""One start of the user's command: its environment, its end, and what its processes left."""

from __future__ import annotations

import contextlib
import getpass
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.journal import entries
from ds_lint.smoke.probe import loggers
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.probe.presence import DONE
from ds_lint.smoke.processes import descendants
from ds_lint.smoke.processes.client import CouldNotRun, undisturbed
from ds_lint.smoke.processes.leftovers import MARK, end_processes_of, processes_of
from ds_lint.smoke.processes.shared_memory import SegmentsOfRun
from ds_lint.smoke.records import engine_trace
from ds_lint.smoke.script import elsewhere, hooked
from ds_lint.smoke.script.elsewhere import Elsewhere
from ds_lint.smoke.script.processes import processes_in, ranks_of, sweep_segments
from ds_lint.smoke.script.restore import Restored, restore
from ds_lint.smoke.script.unobserved import Lookout

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.processes.descendants import Descendants
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.script.hooked import HookedPython
    from ds_lint.smoke.script.processes import ScriptProcess

_STARTUP = os.path.join(os.path.dirname(plans.__file__), "startup")
_TICK = 0.05  # seconds between looks at a command
_LONG_TICK = 0.5  # and at all processes of the machine
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")  # of a variable, before a command
_PATIENCE = 10.0  # seconds for a launcher to end its ranks
_LONGEST = 75  # characters of a folder for sockets of multiprocessing, whose paths have 107 at most on Linux
_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}  # a small model needs no weights
_ON_CPUS = {"DS_ACCELERATOR": "cpu", "ACCELERATE_TORCH_DEVICE": "cpu", "CUDA_VISIBLE_DEVICES": ""}


class CommandEnd(NamedTuple):
    """How a start of the command ended."""

    status: int | None  # None: its time was up, or a process of it was not observed
    seconds: float
    processes: list[ScriptProcess]  # that imported a training library, by rank
    engines: dict[int, list[EngineTrace]]  # by their number, each with its ranks in order
    hooked: list[HookedPython]  # every Python that has run the startup hook
    later: list[HookedPython]  # those that the command has started after the steps of the run, and that end at once
    restored: Restored  # what the script has changed
    unobserved: str | None = None  # the command line of a process that trains without the probe, which ended the start
    elsewhere: str | None = None  # what has gone wrong on another node, and has ended the start

    @property
    def ranks(self) -> list[ScriptProcess]:
        """The processes of ranks."""
        return ranks_of(self.processes)


def run(command: list[str], plan: Plan, seconds: float) -> CommandEnd:
    """Start the command, and wait for its end; what it prints goes to standard error."""
    with descendants.adopted() as children:
        return _run(command, plan, seconds, children)


def _run(command: list[str], plan: Plan, seconds: float, children: Descendants) -> CommandEnd:
    began = time.monotonic()
    had_kernels = os.path.isdir(_kernels())
    segments = SegmentsOfRun()
    process = started(command, environment_of(plan))
    with open(os.path.join(plan.own_folder, "go"), "wb"):
        pass  # nodes that follow start the command, too
    lookout, others = Lookout(plan, process.pid, children, segments), Elsewhere(plan)
    try:
        status = _wait(process, lookout, others, began + seconds)
        if status == 0:
            status = _wait_for_background(plan, lookout, began + seconds)
        if status == 0:
            status = others.status_of_followers(began + seconds)
        has_reason = lookout.found is not None or others.failed is not None or others.has_raised
        if status is None and not has_reason and (why := others.ask()) is not None:
            others.failed = f"the command did not finish within {seconds:g} s (--timeout): {why}"
        if status == elsewhere.UNSEEN:
            others.failed = others.failed or elsewhere.unseen(plan)
    finally:
        with undisturbed():
            segments.look({*processes_of(plan.folder), *children.alive()})
            if lookout.found is not None:
                end_processes_of(plan.folder, also=children.alive)  # at once: what it changes stays
            end(process)
            end_processes_of(plan.folder, also=children.alive)
            children.reap(but=process.pid)
            others.end()
            processes = processes_in(plan.own_folder)
            sweep_segments(processes)
            segments.remove(entries.observed(plan.folder))
            restored = restore(plan.folder)
            if not had_kernels:
                with contextlib.suppress(OSError):  # there are kernels now
                    os.rmdir(_kernels())
    for path, why in restored.left:
        sys.stderr.write(f"ds-lint: {path} stays as it is: {why}\n")
    if restored.handed:
        what = restored.handed[0] if len(restored.handed) == 1 else f"{len(restored.handed)} paths"
        sys.stderr.write(
            f"ds-lint: another run of ds-lint changes {what}, too, and restores what was there at its end\n"
        )
    return CommandEnd(
        status=status,
        seconds=time.monotonic() - began,
        processes=processes,
        engines=engine_trace.read_all(plan.own_folder),
        hooked=hooked.read(plan.own_folder),
        later=hooked.read_later(plan.own_folder),
        restored=restored,
        unobserved=lookout.found,
        elsewhere=others.failed,
    )


def started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start the command; what it prints goes to standard error."""
    try:
        return subprocess.Popen(  # noqa: S603 - what the user asks for
            ["env", *command] if _ASSIGNMENT.match(command[0]) else command,
            stdout=_standard_error(),
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise CouldNotRun(f"{command[0]!r} cannot be started: {error.strerror}") from None


def _standard_error() -> int:
    """The number of standard error: that of the process, if a program that embeds ds-lint collects what is written."""
    try:
        return sys.stderr.fileno()
    except (AttributeError, OSError):  # io.UnsupportedOperation is one
        return 2


def environment_of(plan: Plan, path: str | None = None) -> dict[str, str]:
    """The user's own, with the probe; on CPUs each rank computes with one thread, unless the user says otherwise.

    The plan is written, unless its path is given.
    """
    own = os.environ.get("PYTHONPATH")
    environment = {
        **loggers.environment(plan, dict(os.environ)),
        **_temporary(plan),
        "PYTHONPATH": os.pathsep.join(filter(None, (_STARTUP, plan.own_folder, own))),
        plans.VARIABLE: path or plans.write(plan),
        MARK: plan.folder,
    }
    if plan.uses_cpu:
        environment |= _ON_CPUS
        environment.setdefault("OMP_NUM_THREADS", "1")
    if plan.shrinks:
        environment |= _OFFLINE
    return environment


def _temporary(plan: Plan) -> dict[str, str]:
    """Temporary files go with the run, but not the kernels that torch has compiled before."""
    if len(plan.temporary) > _LONGEST:
        return {}
    return {
        "TMPDIR": plan.temporary,
        "TORCHINDUCTOR_CACHE_DIR": os.environ.get("TORCHINDUCTOR_CACHE_DIR", _kernels()),
    }


def _kernels() -> str:
    """Where torch keeps compiled kernels, from ``torch/_inductor/runtime/cache_dir_utils.py``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        user = str(os.getuid())
    return os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")


def of_inspection(plan: Plan) -> dict[str, str]:
    """The environment of a process of ours that loads what the script has saved."""
    kept = {name: value for name, value in os.environ.items() if name != plans.VARIABLE}
    return {**kept, MARK: plan.kept_folder, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}


def start_inspection(plan: Plan, module: str, path: str, job: object) -> subprocess.Popen[bytes]:
    """Start a module of this package in a process of its own, with its job in a file, and its log beside that."""
    os.makedirs(os.path.dirname(path), exist_ok=True)  # without room nothing is saved there
    with open(path, "wb") as file:
        pickle.dump(job, file)
    with open(f"{path}.log", "wb") as log:
        return subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-m", f"ds_lint.smoke.script.{module}", path],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=of_inspection(plan),
        )


def _wait(process: subprocess.Popen[bytes], lookout: Lookout, others: Elsewhere, deadline: float) -> int | None:
    """The exit status of a command; None if its time is up, a process is not observed, or another node fails."""
    while process.poll() is None:
        if (status := others.failed_status()) is not None:
            return status
        if lookout.sees_one() or others.has_failed() or time.monotonic() > deadline:
            return None
        time.sleep(_TICK)
    return process.returncode


def _wait_for_background(plan: Plan, lookout: Lookout, deadline: float) -> int | None:
    """Wait for ranks of a shell script that starts its launcher with ``&`` and ends; None as for the command itself."""
    while alive := set(processes_of(plan.folder)):
        ranks = ranks_of(processes_in(plan.own_folder))
        has_begun = any(one.phase == DONE or one.raised or one.ended for one in ranks)
        if has_begun and not any(one.pid in alive for one in ranks):
            break  # what is left is not a rank, such as a worker or a server
        if lookout.sees_one() or time.monotonic() > deadline:
            return None
        time.sleep(_LONG_TICK)
    return 0


def end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of a command: first the launcher, which ends its ranks."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)

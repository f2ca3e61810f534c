"""What each process of the command leaves about itself: its rank, the phase of the script, and how it ended."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.journal import areas
from ds_lint.smoke.records.cause import cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.smoke.probe.plan import Plan

IMPORT, BEFORE, INITIALIZE, AFTER = "import", "before initialize", "initialize", "after initialize"
INFERENCE = "init_inference"
STEP, SAVE = "step", "save"
BEFORE_FSDP = "before shard"  # FSDP is imported, and none of the libraries that make an engine
SHARD = "shard"  # FSDP of torch shards a model
DONE = "done"
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_OF_VALUES = "pydantic/"
# Inherited by what a rank starts, which is not a rank itself. Schedulers of clusters give their variables to launchers,
# too (SLURM_PROCID to a batch script, RANK to a pod): such a process only seems to be a rank.
_PROCESS_OF_RANK, _SEEMING = "DS_LINT_PROCESS_OF_RANK", "DS_LINT_SEEMING_RANK"


class Presence:
    """The file of this process, written again whenever something changes; a reader never sees half of it."""

    def __init__(self, plan: Plan) -> None:
        self._folder = areas.place_of_processes(plan.own_folder)
        self._pid = os.getpid()
        self._at_end: list[Callable[[], None]] = []
        self._facts: dict[str, Any] = {
            "pid": self._pid, "rank": None, "started_by": None, "phase": IMPORT, "raised": None, "argv": sys.argv[:],
            "seconds": {}, "unable": None, "ended": None, "port": _port(), "adaptations": [], "shrunk": [],
            "call": None, "calls": {}, "node": areas.own_node(), "world_size": None,
            "address": None, "hosts": os.environ.get("SLURM_STEP_NODELIST"),
        }  # fmt: skip
        self._note_rank()
        self._since = time.monotonic()
        self._write()

    def enter(self, phase: str) -> None:
        """The script is in another phase."""
        if phase in (INITIALIZE, INFERENCE):
            self._pid = os.getpid()  # a rank that is a fork; other forks, such as workers that load data, tell nothing
        seconds = self._facts["seconds"]
        seconds[self._facts["phase"]] = seconds.get(self._facts["phase"], 0.0) + time.monotonic() - self._since
        self._since = time.monotonic()
        self._facts |= {"pid": self._pid, "phase": phase, "argv": sys.argv[:], "port": _port()}
        self._note_rank()
        self._write()

    @contextlib.contextmanager
    def during(self, phase: str) -> Iterator[None]:
        """The script is in a phase for a while; it stays there if it raises."""
        before = self.phase
        self.enter(phase)
        try:
            yield
        except Exception as error:
            self.raised(error)
            raise
        self.enter(before)

    @contextlib.contextmanager
    def within(self, call: str) -> Iterator[None]:
        """The script is for a while in a call that waits for the other ranks."""
        before, self._facts["call"] = self._facts["call"], call
        self._facts["calls"][call] = self._facts["calls"].get(call, 0) + 1
        self._write()
        try:
            yield
        finally:
            self._facts["call"] = before
            self._write()

    @property
    def phase(self) -> str:
        """Where the script is."""
        phase: str = self._facts["phase"]
        return phase

    def raised(self, error: BaseException) -> None:
        """An exception that nothing in the script has caught, or that came through the engine."""
        text = {"kind": type(error).__name__, "text": str(error), "where": place_of(error), "cause": cause_of(error)}
        self._facts["raised"] = text
        self._write()

    def unable(self, why: str) -> None:
        """What the script needs is not on this machine, or the probe cannot go on; one sentence."""
        self._facts["unable"] = why
        self._write()

    def adapted(self, what: str) -> None:
        """The probe has put something in the place of what the script asks for; one sentence, reported once."""
        if what not in self._facts["adaptations"]:
            self._facts["adaptations"].append(what)
            self._write()

    def shrunk(self, model: dict[str, Any]) -> None:
        """A model of the script is smaller than its config says."""
        if model not in self._facts["shrunk"]:
            self._facts["shrunk"].append(model)
            self._write()

    def at_end(self, function: Callable[[], None]) -> None:
        """Call a function if the script ends by itself, before the last step of the run."""
        self._at_end.append(function)

    def ended(self, how: str) -> None:
        """The script ends by itself; a process that is killed notes nothing."""
        if os.getpid() != self._pid or self._facts["ended"] is not None or self.phase == DONE:
            return
        self._facts["ended"] = how
        self._write()
        for function in self._at_end:
            function()

    def _note_rank(self) -> None:
        """The rank that a launcher has given to this process, or that it has in its group.

        What a rank starts, such as workers that compile or load data, inherits the variables of its launcher.
        """
        own = str(os.getpid())
        rank, is_certain = _rank()
        others = [os.environ.get(name, own) != own for name in (_PROCESS_OF_RANK, _SEEMING)]
        if rank is None or others[0] or (others[1] and not is_certain):
            self._facts["rank"] = None
            return
        if others[1]:  # it is the launcher of this rank
            self._facts["started_by"] = int(os.environ[_SEEMING])
        self._facts |= {"rank": rank, "world_size": _world_size(), "address": os.environ.get("MASTER_ADDR")}
        os.environ[_PROCESS_OF_RANK if is_certain else _SEEMING] = own

    def _write(self) -> None:
        if os.getpid() != self._pid:
            return
        path = os.path.join(self._folder, f"process-{self._pid}.json")
        with open(f"{path}.new", "w", encoding="utf-8") as file:
            json.dump(self._facts, file)
        os.replace(f"{path}.new", path)


def place_of(error: BaseException) -> str:
    """The innermost frame, as ``train.py:31 main``; of what pydantic raises, the one that gives it the value."""
    found = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        path = _in_package(code.co_filename, trace.tb_frame.f_globals.get("__name__"))
        if not found or not path.startswith(_OF_VALUES):
            found = f"{path}:{trace.tb_lineno} {code.co_name}"
        trace = trace.tb_next
    return found


def _in_package(path: str, module: str | None) -> str:
    """The path of a file below the folder that has its package, which need not be installed in ``site-packages``."""
    package = (module or "").partition(".")[0]
    _, found, below = path.rpartition(f"{os.sep}{package}{os.sep}")
    return f"{package}{os.sep}{below}" if package and found else path.rpartition("site-packages/")[2]


def _rank() -> tuple[int | None, bool]:
    """The rank that this process has or seems to have, and whether it is certain."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), True
    found = (os.environ.get(name) for name in _RANKS)
    rank = next((int(one) for one in found if one and one.isdecimal()), None)
    return rank, {"RANK", "LOCAL_RANK"} <= os.environ.keys()  # launchers give both


def _world_size() -> int | None:
    """The number of all ranks, once they have connected."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        size: int = distributed.get_world_size()
        return size
    return None


def _port() -> int | None:
    port = os.environ.get("MASTER_PORT", "")
    return int(port) if port.isdecimal() else None

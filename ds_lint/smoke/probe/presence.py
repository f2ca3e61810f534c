"""What each process of the command leaves about itself: its rank, the phase of the script, and how it ended."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import cpu, engines, imports, isolation, missing, shrinking
from ds_lint.smoke.rank.cause import cause_of

if TYPE_CHECKING:
    from types import TracebackType

    from ds_lint.smoke.probe.plan import Plan

IMPORT, BEFORE, INITIALIZE, STEP, SAVE, DONE = "import", "before initialize", "initialize", "step", "save", "done"
_FIRST_IMPORTED = ("transformers", "accelerate", "deepspeed")


class Presence:
    """The file of this process, written again whenever something changes; a reader never sees half of it."""

    def __init__(self, plan: Plan) -> None:
        self._path = os.path.join(plan.own_folder, f"process-{os.getpid()}.json")
        self._pid = os.getpid()
        self._facts: dict[str, Any] = {
            "pid": os.getpid(), "rank": _rank(), "phase": IMPORT, "raised": None, "argv": sys.argv[:], "seconds": {},
            "unable": None, "adaptations": [], "shrunk": [],
        }  # fmt: skip
        self._since = time.monotonic()
        self._write()

    def enter(self, phase: str) -> None:
        """The script is in another phase."""
        seconds = self._facts["seconds"]
        seconds[self._facts["phase"]] = seconds.get(self._facts["phase"], 0.0) + time.monotonic() - self._since
        self._since = time.monotonic()
        self._facts |= {"phase": phase, "rank": _rank(), "argv": sys.argv[:]}
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
        """The probe has put something in the place of what the script asks for; one sentence, told once."""
        if what not in self._facts["adaptations"]:
            self._facts["adaptations"].append(what)
            self._write()

    def shrunk(self, model: dict[str, Any]) -> None:
        """A model of the script is smaller than its config says."""
        if model not in self._facts["shrunk"]:
            self._facts["shrunk"].append(model)
            self._write()

    def _write(self) -> None:
        if os.getpid() != self._pid:  # a fork, such as a worker of a data loader, is another process
            return
        with open(f"{self._path}.new", "w", encoding="utf-8") as file:
            json.dump(self._facts, file)
        os.replace(f"{self._path}.new", self._path)


def begin(plan: Plan) -> None:
    """Watch this process from now on; whatever the user imports next is hooked as soon as it is there."""
    presence = Presence(plan)
    former = sys.excepthook

    def note(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        presence.raised(error)
        if (why := missing.from_this_machine(error, uses_cpu=plan.uses_cpu)) is not None:
            presence.unable(why)
        former(kind, error, trace)

    sys.excepthook = note
    for name in _FIRST_IMPORTED:
        imports.after(name, lambda _module: presence.enter(BEFORE) if presence.phase == IMPORT else None)
    if plan.uses_cpu:
        cpu.install(presence.adapted)
    isolation.install(plan)
    if plan.shrinks:
        shrinking.install(presence)
    engines.install(plan, presence)


def place_of(error: BaseException) -> str:
    """The innermost frame, as ``train.py:31 main``."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('site-packages/')[2]}:{trace.tb_lineno} {code.co_name}"


def _rank() -> int | None:
    """The rank that a launcher has given to this process."""
    found = (os.environ.get(name) for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"))
    return next((int(one) for one in found if one and one.isdecimal()), None)

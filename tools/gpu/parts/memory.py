"""What training runs take of a GPU, beside what ``ds-lint memory`` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts import host
from tools.gpu import card, memory_setups
from tools.gpu.forks import forks
from tools.gpu.memory_setups import DOES_NOT_FIT, PHASES, SETUPS, MemorySetup
from tools.gpu.setting import MEASURED, Item, Setting, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ds_lint.memory.band import Band
    from ds_lint.memory.estimate import Estimate
    from tools.gpu.forks import Forks
    from tools.gpu.setting import Result

QUESTION = "Is what a training run takes of a GPU what `ds-lint memory` says?"
LANES = 1  # a run that shares the GPU with another has not all of its memory
_PROGRAM = "tools.gpu.engine_memory"
_STARTING = 30.0  # seconds, where a fork takes no GPU and a process imports the libraries
_PATIENCE = 3  # times what a run may take
# Beside the states of a run there are its batch, its losses and norms, and each tensor is rounded to 512 bytes.
_STRAY = 32 * 2**20
_REHEARSED_HOST = 128 * card.GIB
CONTEXT, WORKSPACES, COMMUNICATION = "context", "matrix workspaces", "communication"
_ALONE = {
    CONTEXT: ("context", "what does a context take?"),
    WORKSPACES: ("matrices", "what do the matrix libraries take?"),
    COMMUNICATION: ("communication", "what does NCCL take?"),
}


def items(setting: Setting) -> list[Item]:
    """What is beside the tensors of every run, and the runs."""
    machine = _Machine(setting, setting.gpu)
    return [
        *(Item(name, _alone(machine, *how), 6.0) for name, how in _ALONE.items()),
        *(Item(setup.name, _training(machine, setup), setup.seconds) for setup in SETUPS),
    ]


def lane(setting: Setting) -> AbstractContextManager[Forks]:
    """The process with the libraries."""
    return forks(setting)


class _Machine(NamedTuple):
    """The card and the host, seen by a process that takes nothing of the card."""

    setting: Setting
    gpu: str | None

    def card(self) -> tuple[card.Before, Result]:
        """What the card has now, also in the words of the program."""
        rehearses = self.setting.rehearses
        before = card.Before.of(card.of(self.gpu, rehearses=rehearses))
        return before, {"gpu": self.gpu, "rehearses": rehearses, "before": list(before)}

    def free_memory(self) -> int | None:
        """What the host has left; in a rehearsal, as many bytes as the machine that is measured."""
        return _REHEARSED_HOST if self.setting.rehearses else host.free_memory()


def _alone(machine: _Machine, function: str, question: str) -> Callable[[Forks], Result]:
    def measure(shared: Forks) -> Result:
        _, told = machine.card()
        found = shared.call(f"{_PROGRAM}:{function}", {"card": told}, seconds=60.0)
        if machine.setting.rehearses:
            raise Unanswered(question)
        return {"status": MEASURED, **found}

    return measure


def _training(machine: _Machine, setup: MemorySetup) -> Callable[[Forks], Result]:
    def measure(shared: Forks) -> Result:
        estimate = memory_setups.expected(setup)
        saved = memory_setups.saving(setup, estimate.setup.parameter_count)
        result = {
            "setup": {**setup._asdict(), "parameters": estimate.setup.parameter_count, "saves": saved},
            "estimate": {name: _told(estimate, name) for name in estimate.peaks},
        }
        before, told = machine.card()
        lacking = _lacking(estimate, {"gpu": before.free, "host": machine.free_memory()})
        if lacking:
            return {"status": DOES_NOT_FIT, **result, "lacking": lacking}
        run = _run(machine.setting, setup, saved)
        found = shared.call(f"{_PROGRAM}:measure", {"card": told, "run": run}, _patience(setup))
        return {**result, **found, **_compared(result["estimate"], found)}

    return measure


def _run(setting: Setting, setup: MemorySetup, saved: str) -> Result:
    """A set-up in the words of the program; a rehearsal trains a small model in the same way."""
    model = memory_setups.MODELS[setup.model]
    run = {
        **setup._asdict(),
        "model": model,
        "config": memory_setups.config(setup, saved),
        "adapters": memory_setups.adapters(setup),
        "saves": saved,
        "folder": setting.folder,
    }
    return {**run, "model": memory_setups.shrunk(model), "sequence_length": 16} if setting.rehearses else run


def _patience(setup: MemorySetup) -> float:
    """The seconds after which a run is ended."""
    return _STARTING + _PATIENCE * setup.seconds


def _told(estimate: Estimate, phase: str) -> Result:
    peak = estimate.peaks[phase]
    return {"tensors": _bytes(peak.tensors), "gpu": _bytes(peak.gpu), "host": _bytes(peak.host)}


def _bytes(band: Band) -> dict[str, int]:
    return {name: round(value) for name, value in band._asdict().items()}


def _lacking(estimate: Estimate, free: dict[str, int | None]) -> dict[str, dict[str, int]]:
    """What likely does not fit, with what is needed and what there is; nothing if the run is worth a try."""
    needed = {"gpu": estimate.gpu_bytes.likely, "host": estimate.host_bytes.likely}
    return {
        place: {"likely": round(needed[place]), "free": there}
        for place, there in free.items()
        if there is not None and needed[place] > there
    }


def _compared(estimate: Result, found: Result) -> Result:
    """Whether each phase took what is said: ``within`` for the process, ``tensors_within`` for the tensors alone.

    Of a phase in which the driver does not tell what the process takes, ``within`` says nothing.
    """
    within, of_tensors = {}, {}
    for phase, reading in found["observed"].items():
        said = estimate[PHASES[phase]]
        if (taken := whole(reading)) is not None:
            within[phase] = said["gpu"]["least"] <= taken <= said["gpu"]["most"]
        # torch counts the workspaces among the tensors, from the first step on.
        tensors = reading["peak_allocated"] - (found.get("workspaces", 0) if phase != "initialization" else 0)
        bounds = said["tensors"]["least"] - _STRAY, said["tensors"]["most"] + _STRAY
        of_tensors[phase] = bounds[0] <= tensors <= bounds[1]
    return {"within": within, "tensors_within": of_tensors}


def whole(reading: Result) -> int | None:
    """What a process took of the card when it took most; None if the driver says nothing.

    The driver says what it takes now: what torch has given back since the peak is to be added.
    """
    now = reading["process"] if reading["process"] is not None else reading["device"]
    return None if now is None else int(now + reading["peak_reserved"] - reading["reserved"])

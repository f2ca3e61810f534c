"""What training runs take of a GPU, beside what ``ds-lint memory`` says of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts import host
from tools.gpu import card, memory_setups
from tools.gpu.forks import forks
from tools.gpu.memory_setups import DOES_NOT_FIT, LEFT_OUT, PHASES, SETUPS, MemorySetup
from tools.gpu.setting import MEASURED, Item, Setting, Unanswered

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from ds_lint.footprint.band import Band
    from ds_lint.footprint.estimate import Estimate
    from tools.gpu.forks import Forks
    from tools.gpu.setting import Result

QUESTION = "Is what a training run takes of a GPU what `ds-lint memory` says?"
LANES = 1  # a run that shares the GPU with another has not all of its memory
_PROGRAM = "tools.gpu.engine_memory"
_STARTING = 30.0  # seconds, where a fork takes no GPU and a process imports the libraries
_PATIENCE = 3  # times what a run may take
# Beside the states of a run there are its batch, its losses and norms, and each tensor is rounded to 512 bytes.
_SLACK, _SLACK_SHARE = 32 * 2**20, 0.01
_CAPPED = 8  # set-ups that train once more with hardly more memory than their tensors take
_MORE = (0.02, 0.05, 0.1, 0.2, 0.4)  # shares of that, tried in this order
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
        *(
            Item(setup.name, _training(machine, setup, is_capped=place < _CAPPED), setup.seconds)
            for place, setup in enumerate(SETUPS)
        ),
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
        _, facts = machine.card()
        found = shared.call(f"{_PROGRAM}:{function}", {"card": facts}, seconds=60.0)
        if machine.setting.rehearses:
            raise Unanswered(question)
        return {"status": MEASURED, **found}

    return measure


def _training(machine: _Machine, setup: MemorySetup, *, is_capped: bool) -> Callable[[Forks], Result]:
    def measure(shared: Forks) -> Result:
        estimate = memory_setups.expected(setup)
        saved = memory_setups.saving(setup, estimate.setup.parameter_count)
        result = {
            "setup": {**setup._asdict(), "parameters": estimate.setup.parameter_count, "saves": saved},
            "estimate": {name: _bands(estimate, name) for name in estimate.peaks},
        }
        before, facts = machine.card()
        lacking = _lacking(estimate, {"gpu": before.free, "host": machine.free_memory()})
        if lacking:
            return {"status": DOES_NOT_FIT, **result, "lacking": lacking}
        run = _run(machine.setting, setup, saved)
        found = shared.call(f"{_PROGRAM}:measure", {"card": facts, "run": run}, _patience(setup))
        needed = (
            _needed(shared, facts, run, found, _patience(setup)) if is_capped and found["status"] == MEASURED else {}
        )
        return {**result, **found, **needed, **_compared(result["estimate"], found)}

    return measure


def _needed(shared: Forks, facts: Result, run: Result, found: Result, patience: float) -> Result:
    """The least of some shares beyond its tensors with which the run trains if torch may reserve no more.

    With room on the card torch reserves more than a run needs: it gives back what it has kept before it runs out.
    """
    most = max(reading["peak_allocated"] for reading in found["observed"].values())
    for more in _MORE:
        capped = {**run, "saves": LEFT_OUT, "most_reserved": round(most * (1 + more))}
        if shared.call(f"{_PROGRAM}:measure", {"card": facts, "run": capped}, patience)["status"] == MEASURED:
            return {"needed_beyond_tensors": more}
    return {}


def in_order(results: list[Result]) -> list[Result]:
    """Results in the order of the set-ups, beside what ``ds-lint memory`` says now: maybe other than when measured."""
    by_name = {one["name"]: one for one in results}
    runs = [
        {**one, **_estimated(one, memory_setups.expected(setup))}
        for setup in SETUPS
        if (one := by_name.pop(setup.name, None)) is not None and "observed" in one
    ]
    return [*by_name.values(), *runs]


def _estimated(result: Result, estimate: Estimate) -> Result:
    now = {name: _bands(estimate, name) for name in estimate.peaks}
    return {"estimate": now, **_compared(now, result)}


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


def _bands(estimate: Estimate, phase: str) -> Result:
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
    """Whether each phase took what is estimated: ``within`` for the process, ``tensors_within`` for the tensors alone.

    A process gives nothing of the card back, so that of a later phase the bounds of those before count, too. Of a
    phase in which the driver does not tell what the process takes, ``within`` says nothing.
    """
    within, of_tensors = {}, {}
    least = most = 0
    for phase, readings in by_estimate(found["observed"]).items():
        bands = estimate[phase]
        least, most = max(least, bands["gpu"]["least"]), max(most, bands["gpu"]["most"])
        taken = [size for reading in readings if (size := whole(reading)) is not None]
        if taken:
            within[phase] = least <= max(taken) <= most
        # torch counts the workspaces among the tensors, from the first step on.
        beside = found.get("workspaces", 0) if phase != "initialization" else 0
        tensors = max(reading["peak_allocated"] for reading in readings) - beside
        slack = _SLACK + _SLACK_SHARE * tensors
        of_tensors[phase] = bands["tensors"]["least"] - slack <= tensors <= bands["tensors"]["most"] + slack
    return {"within": within, "tensors_within": of_tensors}


def by_estimate(observed: dict[str, Result]) -> dict[str, list[Result]]:
    """What was read, by the phase of the estimate that covers it."""
    found: dict[str, list[Result]] = {}
    for phase, reading in observed.items():
        found.setdefault(PHASES[phase], []).append(reading)
    return found


def whole(reading: Result) -> int | None:
    """What a process took of the card when it took most; None if the driver says nothing.

    The driver says what it takes now: what torch has given back since the peak is to be added.
    """
    now = reading["process"] if reading["process"] is not None else reading["device"]
    return None if now is None else int(now + reading["peak_reserved"] - reading["reserved"])

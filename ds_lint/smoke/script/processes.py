"""What the processes of a start have left about themselves."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from ds_lint.smoke.records.job import Raised

_AS_LEFT = ("pid", "rank", "started_by", "phase", "unable", "ended", "port", "seconds", "adaptations")  # by the probe


class ShrunkModel(NamedTuple):
    """A model that was made small on the way."""

    model: str  # the class
    name: str  # as the script names it; may be empty
    before: int | None  # parameters; None if they are not known without making them
    after: int | None
    changes: dict[str, list[object]]  # by field of its config, before and after


class ScriptProcess(NamedTuple):
    """What a process of the command left about itself."""

    pid: int
    rank: int | None
    started_by: int | None  # the process of its launcher, which looks like a rank; else None
    phase: str
    raised: Raised | None
    unable: str | None
    ended: str | None  # how it ended by itself; None if it was killed, or ended with the run
    port: int | None  # MASTER_PORT, which names segments of DeepSpeed
    seconds: dict[str, float]  # by phase
    adaptations: list[str]  # what stands for things that this machine does not have, a sentence each
    shrunk: list[ShrunkModel]


def processes_in(folder: str) -> list[ScriptProcess]:
    """What the processes of a start have left about themselves."""
    found = []
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        if name.startswith("process-") and name.endswith(".json"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found.append(_process(json.load(file)))
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0))


def _process(facts: dict[str, Any]) -> ScriptProcess:
    """The record of a process; the probe writes its fields under the same names."""
    raised = facts["raised"]
    return ScriptProcess(
        **{name: facts[name] for name in _AS_LEFT},
        raised=Raised(phase=facts["phase"], **raised) if raised is not None else None,
        shrunk=[ShrunkModel(**one) for one in facts["shrunk"]],
    )


def ranks_of(processes: list[ScriptProcess]) -> list[ScriptProcess]:
    """The processes of ranks: launchers import the libraries too, and have none, or only seem to have one."""
    launchers = {one.started_by for one in processes}
    return [one for one in processes if one.rank is not None and one.pid not in launchers] or processes

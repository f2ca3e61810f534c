"""What the processes of a start have left about themselves."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from ds_lint.smoke.journal import areas
from ds_lint.smoke.probe.presence import DONE
from ds_lint.smoke.processes.leftovers import sweep
from ds_lint.smoke.records.job import Raised

_AS_LEFT = (  # by the probe
    "pid", "rank", "started_by", "phase", "unable", "ended", "port", "seconds", "adaptations", "call", "calls", "node",
    "world_size", "hosts", "address",
)  # fmt: skip


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
    call: str | None = None  # in which it waits for the other ranks
    calls: dict[str, int] = {}  # noqa: RUF012 - a NamedTuple's default; how often it has made each of them
    node: str = ""  # its name
    world_size: int | None = None  # all ranks, once they have connected
    hosts: str | None = None  # the nodes of the step, as Slurm writes them
    address: str | None = None  # MASTER_ADDR, where it looks for the first rank

    @property
    def is_silent(self) -> bool:
        """Whether it has neither come to the end of the run nor said how it ends."""
        return self.raised is None and self.ended is None and self.phase != DONE


def processes_in(folder: str) -> list[ScriptProcess]:
    """What the processes of a start have left about themselves, on all nodes."""
    found = []
    for place in areas.places_of_processes(folder).values():
        for name in sorted(os.listdir(place)):
            if name.startswith("process-") and name.endswith(".json"):
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    found.append(_process(json.load(file)))
    return sorted(found, key=lambda one: (one.rank is None, one.rank or 0))


def _process(facts: dict[str, Any]) -> ScriptProcess:
    """The record of a process; the probe writes its fields under the same names."""
    raised = facts["raised"]
    return ScriptProcess(
        **{name: facts[name] for name in _AS_LEFT if name in facts},
        raised=Raised(phase=facts["phase"], **raised) if raised is not None else None,
        shrunk=[ShrunkModel(**one) for one in facts["shrunk"]],
    )


def ranks_of(processes: list[ScriptProcess]) -> list[ScriptProcess]:
    """The processes of ranks: launchers import the libraries too, and have none, or only seem to have one."""
    launchers = {(one.node, one.started_by) for one in processes}
    return [one for one in processes if one.rank is not None and (one.node, one.pid) not in launchers] or processes


def sweep_segments(processes: list[ScriptProcess]) -> None:
    """Remove the shared memory that a start of the command has left on this node under the names of its processes."""
    sweep(one.pid for one in processes if one.node == areas.own_node())
    for port in {one.port for one in processes if one.port is not None}:
        sweep([], port)

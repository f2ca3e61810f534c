"""The agent of a run on another node than the driver's: watches the processes there, ends them, and restores the node.

The first Python that a start of the command has on a node starts it, with the interpreter of the user. It ends with the
last process there, when the driver ends the start, and when the driver is gone. A scheduler such as Slurm may kill it
with the processes of the step: then ``ds_lint.smoke.script.elsewhere`` has another one started.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time

from ds_lint.smoke.journal import areas, entries
from ds_lint.smoke.journal.register import Lock
from ds_lint.smoke.probe.plan import RESTORE, Plan
from ds_lint.smoke.processes.descendants import Descendants, is_here
from ds_lint.smoke.processes.leftovers import processes_of, sweep
from ds_lint.smoke.processes.shared_memory import SegmentsOfRun
from ds_lint.smoke.script import hooked, reachability
from ds_lint.smoke.script.heartbeats import OF_AGENT, OF_DRIVER, Beat, Watched
from ds_lint.smoke.script.processes import processes_in, ranks_of
from ds_lint.smoke.script.restore import restore
from ds_lint.smoke.script.unobserved import Lookout

READY, CLEARED, UNOBSERVED = "ready", "cleared", "unobserved"  # files of an agent
KILLED, RAISED = "killed", "raised"  # those with ranks of its node that have ended
_BY_PEER = "peer"  # the cause of what a rank raises because another one has ended, maybe with its node
QUESTION, OBSTACLE = "question", "obstacle"  # the driver asks why ranks do not connect, and what an agent answers
_TICK = 0.2  # seconds between looks at whether the start has ended
_ROUNDS, _PAUSE = 500, 0.02  # looks at whether killed processes are gone, and the seconds between them
_IDLE = 30.0  # seconds without a process: a shell script may start the next one


def main() -> None:
    """Watch this node for a start whose folder is given; for the start that restores, do only that."""
    own_folder = sys.argv[1]
    folder, part = os.path.split(own_folder)
    place = areas.place_of_processes(own_folder)
    plan = Plan(folder, part)
    restore_node(folder)
    if part != RESTORE:
        leave(place, READY)
        segments = SegmentsOfRun()
        _watch(plan, place, segments)
        _end_processes(plan)
        segments.remove(one.pid for one in hooked.read(plan.own_folder) if one.node == areas.own_node())
        if not os.path.isdir(own_folder):
            return  # the driver has given up, and has reported it
        restore_node(folder)
    leave(place, CLEARED)


def _watch(plan: Plan, place: str, segments: SegmentsOfRun) -> None:
    """Wait until the start has ended on this node, is ended by the driver, or loses its driver."""
    beat, driver = Beat(os.path.join(place, OF_AGENT)), Watched(os.path.join(plan.folder, OF_DRIVER))
    lookout = Lookout(plan, 0, Descendants(), segments)
    since, has_answered = time.monotonic(), False
    while not os.path.exists(plan.end) and os.path.isdir(plan.own_folder) and not driver.is_lost():
        beat.go_on()
        if not has_answered and os.path.exists(os.path.join(plan.own_folder, QUESTION)):
            has_answered = True
            leave(place, OBSTACLE, reachability.obstacle(processes_in(plan.own_folder)) or "")
        if lookout.sees_one():
            leave(place, UNOBSERVED, lookout.found or "")
            return
        alive = _alive(plan)
        for name, ranks in _ended(plan, alive).items():
            if ranks and not os.path.exists(os.path.join(place, name)):
                leave(place, name, ", ".join(ranks))
        if alive:
            since = time.monotonic()
        elif time.monotonic() - since > _IDLE:
            return
        time.sleep(_TICK)


def _alive(plan: Plan) -> list[int]:
    """The processes of the run on this node, also those whose environment a launcher has not passed on."""
    here = areas.own_node()
    known = [one.pid for one in hooked.read(plan.own_folder) if one.node == here and _is_still(one)]
    return [*known, *filter(is_here, processes_of(plan.folder))]


def _ended(plan: Plan, alive: list[int]) -> dict[str, list[str]]:
    """The ranks of this node that were killed, and those that an exception has ended."""
    here = areas.own_node()
    own = [one for one in ranks_of(processes_in(plan.own_folder)) if one.node == here and one.rank is not None]
    over = [one for one in own if one.pid not in alive]
    return {
        KILLED: [str(one.rank) for one in over if one.is_silent],
        RAISED: [str(one.rank) for one in over if one.raised is not None and one.raised.cause != _BY_PEER],
    }


def _is_still(one: hooked.HookedPython) -> bool:
    """Whether a number is still that of the process that has left it."""
    try:
        with open(f"/proc/{one.pid}/cmdline", "rb") as file:
            return file.read().decode("utf-8", "replace").rstrip("\0").split("\0")[1:] == one.words[1:]
    except OSError:
        return False


def _end_processes(plan: Plan) -> None:
    """Kill what is left of the run on this node, which may fork while it is killed, and remove its segments."""
    here = areas.own_node()
    for _ in range(_ROUNDS):
        left = _alive(plan)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        sweep({*left, *(one.pid for one in hooked.read(plan.own_folder) if one.node == here)})
        if not left:
            return
        time.sleep(_PAUSE)


def restore_node(folder: str) -> None:
    """Restore what belongs to this node, and remove the temporary files of the run."""
    for area in areas.restored_here(folder):
        with Lock(entries.lock_of(area)):
            restore(area)
    shutil.rmtree(f"/tmp/{os.path.basename(folder)}.node", ignore_errors=True)  # noqa: S108 - the startup hook made it


def leave(place: str, name: str, text: str = "") -> None:
    """Write a file for the driver, who never sees half of it."""
    with contextlib.suppress(OSError), open(os.path.join(place, f"{name}.new"), "w", encoding="utf-8") as file:
        file.write(text)
    with contextlib.suppress(OSError):
        os.replace(os.path.join(place, f"{name}.new"), os.path.join(place, name))

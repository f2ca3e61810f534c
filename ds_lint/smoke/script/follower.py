"""``ds-lint smoke`` on a node that another one leads: starts the command when that one does, and restores its node."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

from ds_lint.smoke.journal import areas
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.probe.plan import RESUME, TRAIN
from ds_lint.smoke.processes.client import CouldNotRun, undisturbed
from ds_lint.smoke.script import command_start, node_agent
from ds_lint.smoke.script.elsewhere import BEAT_OF_FOLLOWER, OVER, STATUS
from ds_lint.smoke.script.heartbeats import LOST, OF_DRIVER, Beat, Watched

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.script.gathering import Led

_TICK = 0.1  # seconds between looks
_CLEARED = 20.0  # seconds for the agent of this node to restore it


def follow(one: Led, command: list[str]) -> int:
    """Take part until the leader has made its report; the exit status."""
    leader = Watched(os.path.join(one.folder, OF_DRIVER))
    beat = Beat(os.path.join(one.folder, f"{BEAT_OF_FOLLOWER}{areas.own_node()}"))
    over = os.path.join(one.folder, OVER)
    left = [TRAIN, RESUME]
    try:
        while not os.path.exists(over):
            beat.go_on()
            if leader.is_lost() or not os.path.isdir(one.folder):
                raise CouldNotRun(f"{one.leader}, which leads the run, has not answered for {LOST:g} s")
            part = next((part for part in left if _is_started(one.folder, part)), None)
            if part is None:
                time.sleep(_TICK)
                continue
            left.remove(part)
            _start(command, plans.read(_path_of_plan(one.folder, part)), beat, leader)
        with open(over, encoding="utf-8") as file:
            status = int(file.read() or 2)
    finally:
        with undisturbed():
            node_agent.restore_node(one.folder)
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(one.folder, f"{BEAT_OF_FOLLOWER}{areas.own_node()}"))
    sys.stderr.write(f"ds-lint: {one.leader} has the report\n")
    return status


def _path_of_plan(folder: str, part: str) -> str:
    return os.path.join(folder, f"plan-{part}.json")


def _is_started(folder: str, part: str) -> bool:
    return os.path.exists(os.path.join(folder, part, "go"))


def _start(command: list[str], plan: Plan, beat: Beat, leader: Watched) -> None:
    """Start the command for one part, and say how it ended here."""
    environment = command_start.environment_of(plan, _path_of_plan(plan.folder, plan.part))
    place = areas.place_of_processes(plan.own_folder)
    try:
        process = command_start.started(command, environment)
    except CouldNotRun as error:
        node_agent.leave(place, STATUS, f"127 {error}")
        return
    try:
        while process.poll() is None and not os.path.exists(plan.end) and not leader.is_lost():
            beat.go_on()
            time.sleep(_TICK)
        status = process.poll()
        if status is not None:
            node_agent.leave(place, STATUS, str(status))
    finally:
        command_start.end(process)
        _await_agent(place)


def _await_agent(place: str) -> None:
    """Wait until the agent of this node has restored it, if a Python of the command has started one."""
    agent = Watched(os.path.join(place, "beat"), 4.0)
    until = time.monotonic() + _CLEARED
    while os.path.exists(os.path.join(place, "agent")) and time.monotonic() < until:
        if os.path.exists(os.path.join(place, node_agent.CLEARED)) or agent.is_lost():
            return
        time.sleep(_TICK)

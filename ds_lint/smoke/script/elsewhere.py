"""The nodes of a run beside the driver's: what becomes of them, and how they are restored.

The driver sees them only through the folder of the run, which all nodes share. On each, an agent watches, ends and
restores (``node_agent``). If an agent is killed before it has restored its node, as Slurm does with what is left of a
step, the command starts once more, and each Python of it only restores its node.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from ds_lint.smoke.journal import areas
from ds_lint.smoke.probe.presence import DONE, SAVE, STEP
from ds_lint.smoke.records.rendezvous import hosts
from ds_lint.smoke.script.heartbeats import LOST, OF_AGENT, OF_DRIVER, Beat, Watched
from ds_lint.smoke.script.node_agent import CLEARED, KILLED, OBSTACLE, QUESTION, RAISED, UNOBSERVED
from ds_lint.smoke.script.processes import processes_in, ranks_of
from ds_lint.smoke.script.restore import restore

if TYPE_CHECKING:
    from ds_lint.smoke.probe.plan import Plan
    from ds_lint.smoke.script.processes import ScriptProcess

UNSEEN = 98  # exit status of a Python that does not see the folder of the run
STATUS, BEAT_OF_FOLLOWER, OVER = "status", "beat-of-follower-", "over"  # files of nodes that follow (``follower``)
_EVERY = 1.0  # seconds between looks at the other nodes
_GRACE = 15.0  # seconds for a launcher to end the ranks beside one that is killed
_TELLING = 30.0  # seconds in which all ranks of a training show themselves in the folder
_ANSWERING = 10.0  # seconds for agents to answer
_SILENT = 4.0  # seconds without a beat after which an agent does not answer any more
_FOLLOWERS = "followers"  # a file with their names
_DISMISSING = 20.0  # seconds for nodes that follow to leave
_RESTORING = 60.0  # seconds for the command to start on all nodes
_HELP = "name a folder that all nodes share, at the same path (--folder)"


class Elsewhere:
    """The other nodes during one start of the command."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._beat = Beat(os.path.join(plan.folder, OF_DRIVER))
        self._agents: dict[str, Watched] = {}
        self._followers: dict[str, Watched] = {}
        self._next = 0.0
        self._first_seen: dict[str, float] = {}  # when something was seen that may settle by itself
        self.failed: str | None = None  # why the start cannot go on, in one sentence
        self.has_raised = False  # an exception has ended a rank, and the others still wait for it

    def has_failed(self) -> bool:
        """Whether the start cannot go on because of another node."""
        self._beat.go_on()
        now = time.monotonic()
        if self.failed is None and now >= self._next:
            self._next = now + _EVERY
            self.failed = self._look(now)
        return self.failed is not None or self.has_raised

    def ask(self) -> str | None:
        """Why the time is up, as another node sees it: its ranks may not reach the first; None if none knows."""
        with contextlib.suppress(OSError), open(os.path.join(self._plan.own_folder, QUESTION), "wb"):
            pass
        until = time.monotonic() + _ANSWERING
        places = {node: place for node, place in _places(self._plan).items() if not self._is_cleared(place)}
        while places and time.monotonic() < until:
            for node, place in list(places.items()):
                if os.path.exists(os.path.join(place, OBSTACLE)):
                    if answer := _text(place, OBSTACLE):
                        return answer
                    del places[node]
            time.sleep(0.1)
        return None

    @staticmethod
    def _is_cleared(place: str) -> bool:
        return os.path.exists(os.path.join(place, CLEARED))

    def _look(self, now: float) -> str | None:
        ranks = ranks_of(processes_in(self._plan.own_folder))
        for node, place in _places(self._plan).items():
            unobserved = _text(place, UNOBSERVED)
            if unobserved:
                return f"on {node}, {unobserved} imports torch without the startup hook of ds-lint"
            killed = _text(place, KILLED)
            if killed and self._lasts(f"killed {node}", now, _GRACE):
                which = f"ranks {killed} on {node} are" if "," in killed else f"rank {killed} on {node} is"
                return f"{which} killed: if by SIGKILL, memory has usually run out"
            if _text(place, RAISED) and self._lasts(f"raised {node}", now, _TELLING):
                self.has_raised = True
            agent = self._agents.setdefault(node, Watched(os.path.join(place, OF_AGENT)))
            is_lost = agent.is_lost() and not self._is_cleared(place)
            silent = [one for one in ranks if one.node == node and one.is_silent]
            if is_lost and silent:
                where = f"rank {silent[0].rank} there" if silent[0].rank is not None else "the command there"
                return f"{node} has not answered for {LOST:g} s: the node is down, or {where} was killed"
        return self._lost_follower() or self._unobserved(ranks, now)

    def _unobserved(self, ranks: list[ScriptProcess], now: float) -> str | None:
        """Ranks that take part in a training and that no hook observes, on a node that did not get PYTHONPATH."""
        training = next((one for one in ranks if one.world_size and one.phase in (STEP, SAVE, DONE)), None)
        if training is None or training.world_size is None:
            return None
        missing = sorted(set(range(training.world_size)) - {one.rank for one in ranks})
        if not missing or not self._lasts("missing", now, _TELLING):
            return None
        which = (
            f"rank {missing[0]} trains" if len(missing) == 1 else f"{len(missing)} ranks train, such as {missing[0]},"
        )
        others = sorted(set(_hosts(ranks)) - {one.node for one in ranks})
        on = f" on {', '.join(others)}" if others else ""
        return (
            f"{which}{on} without the startup hook of ds-lint: pass PYTHONPATH on to every node (mpirun: -x PYTHONPATH)"
        )

    def failed_status(self) -> int | None:
        """How the command has failed on a node that follows, some time ago: this one may wait for it without end."""
        failed = [status for status in self._statuses().values() if status]
        return failed[0] if failed and self._lasts("status", time.monotonic(), _GRACE) else None

    def status_of_followers(self, deadline: float) -> int | None:
        """How the command ends on the nodes that follow, once it has here; None if the time is up or one fails."""
        while len(statuses := self._statuses()) < len(followers(self._plan.folder)):
            if self.has_failed() or time.monotonic() > deadline:
                return None
            time.sleep(0.1)
        return next((status for status in statuses.values() if status), 0)

    def _statuses(self) -> dict[str, int]:
        nodes = followers(self._plan.folder)
        found = {node: _text(place, STATUS) for node, place in _places(self._plan).items() if node in nodes}
        return {node: int(text.split()[0]) for node, text in found.items() if text}

    def _lost_follower(self) -> str | None:
        for node in followers(self._plan.folder):
            path = os.path.join(self._plan.folder, f"{BEAT_OF_FOLLOWER}{node}")
            if not os.path.exists(path):
                return f"ds-lint on {node} has ended"
            if self._followers.setdefault(node, Watched(path)).is_lost():
                return f"{node} has not answered for {LOST:g} s: the node is down, or ds-lint there was killed"
        return None

    def _lasts(self, what: str, now: float, seconds: float) -> bool:
        return now - self._first_seen.setdefault(what, now) > seconds

    def end(self) -> None:
        """End the start on all nodes, and wait until their agents have restored them."""
        places = _places(self._plan)
        with contextlib.suppress(OSError), open(self._plan.end, "wb"):
            pass
        for place in places.values():
            agent = Watched(os.path.join(place, OF_AGENT), _SILENT)
            while not self._is_cleared(place) and not agent.is_lost():
                time.sleep(0.1)
        for area in areas.restored_here(self._plan.folder):
            restore(area)


def note_followers(folder: str, nodes: list[str]) -> None:
    """Note which nodes start the command themselves, when this one does."""
    with open(os.path.join(folder, _FOLLOWERS), "w", encoding="utf-8") as file:
        file.write("\n".join(nodes))
    for node in nodes:
        Beat(os.path.join(folder, f"{BEAT_OF_FOLLOWER}{node}")).go_on()  # until it does so itself


def followers(folder: str) -> list[str]:
    """Those nodes."""
    return _text(folder, _FOLLOWERS).split()


def dismiss(folder: str, status: int) -> None:
    """Tell the nodes that follow that the run is over, and wait until they have restored themselves."""
    nodes = followers(folder)
    with contextlib.suppress(OSError), open(os.path.join(folder, OVER), "w", encoding="utf-8") as file:
        file.write(str(status))
    until = time.monotonic() + _DISMISSING
    while any(os.path.exists(os.path.join(folder, f"{BEAT_OF_FOLLOWER}{node}")) for node in nodes):
        if time.monotonic() > until:
            return
        time.sleep(0.1)


def unseen(plan: Plan) -> str:
    """The sentence about a node that does not see the folder of the run."""
    ranks = processes_in(plan.own_folder)
    names = sorted(set(_hosts(ranks)) - {one.node for one in ranks} - set(_places(plan)))
    where = "does not see" if len(names) == 1 else "do not see"
    which = ", ".join(names) if names else "a node of the command"
    return f"{which} {where if names else 'does not see'} {plan.folder}, the folder of the run: {_HELP}"


def restore_nodes(command: list[str], environment: dict[str, str]) -> None:
    """Start the command in an environment in which each Python only restores its node."""
    with contextlib.suppress(OSError), open(os.devnull, "r+b") as nothing:
        process = subprocess.Popen(  # noqa: S603 - the user's command
            ["env", *command],  # noqa: S607 - it may begin with variables
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            env=environment,
            start_new_session=True,
        )
        try:
            process.wait(_RESTORING)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def needs_restoring(plan: Plan) -> bool:
    """Whether a node has something to restore, or processes that were killed before they could end by themselves."""
    if areas.nodes_to_restore(plan.folder):
        return True
    places = _places(plan)
    ended = {node for node, place in places.items() if os.path.exists(os.path.join(place, CLEARED))}
    return any(one.node in places and one.node not in ended and one.is_silent for one in processes_in(plan.own_folder))


def _places(plan: Plan) -> dict[str, str]:
    """The folders of other nodes in a start."""
    return {node: place for node, place in areas.places_of_processes(plan.own_folder).items() if node}


def _hosts(processes: list[ScriptProcess]) -> list[str]:
    """All nodes of the step, if Slurm has named them."""
    return next((hosts(one.hosts) for one in processes if one.hosts), [])


def _text(place: str, name: str) -> str:
    try:
        with open(os.path.join(place, name), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""

"""``ds-lint smoke`` that is started on each node, as ``torchrun --nnodes 2`` is: how they meet, and who leads.

They meet in a folder that all nodes share. The leader makes the run and has the report. The others start the command on
their nodes when it does, and say how it ended there. A file that is merely there proves nothing: a run that was killed
leaves some.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import time
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.journal import areas
from ds_lint.smoke.processes.client import PREFIX, CouldNotRun
from ds_lint.smoke.script.heartbeats import Beat, Watched

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MEMBER, _ANSWER, _CAME = "member-", "answer-", "came-"  # files
_TICK = 0.2  # seconds between looks
_BEATS = 2  # of another node that show that it waits now
_RANK_OF_NODE = re.compile(r"--(?:node[-_]rank|machine[-_]rank)(?:=(\d+))?")
_RANKS_OF_NODES = ("NODE_RANK", "MACHINE_RANK", "GROUP_RANK", "SLURM_NODEID")
_OF_JOB = ("SLURM_JOB_ID", "MASTER_ADDR", "MASTER_PORT")


class Nodes(NamedTuple):
    """The nodes on each of which the user starts ``ds-lint smoke``."""

    number: int
    rank: int | None = None  # of this one, if the command or the environment says it
    name: str = ""  # of what is started, the same on all nodes
    seconds: float = 300.0  # for all of them to start


class Led(NamedTuple):
    """What a node that another one leads gets from it: the folder of the run, and the name of the other."""

    folder: str
    leader: str


def rank_of_node(command: list[str], variables: Mapping[str, str]) -> int | None:
    """The rank of this node; None if only the launchers know it."""
    for word, following in zip(command, [*command[1:], ""], strict=True):
        found = _RANK_OF_NODE.fullmatch(word)
        number = (found[1] or following) if found is not None else ""
        if number.isdecimal():
            return int(number)
    return next((int(value) for name in _RANKS_OF_NODES if (value := variables.get(name, "")).isdecimal()), None)


def name_of(script: str, nodes: int, variables: Mapping[str, str]) -> str:
    """A name that is the same on all nodes of a launch, and another one in another job."""
    words = (script, str(nodes), str(os.getuid()), *(variables.get(name, "") for name in _OF_JOB))
    return hashlib.sha1("\0".join(words).encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()[:12]


class Gathering:
    """The folder in which the nodes of a launch find each other; it goes once they have."""

    def __init__(self, below: str, nodes: Nodes) -> None:
        self._nodes = nodes
        self._folder = os.path.join(os.path.abspath(below), f"{PREFIX}nodes-{nodes.name}")
        self._own = secrets.token_hex(8)
        rank = nodes.rank if nodes.rank is not None else nodes.number
        self._as_member = f"{_MEMBER}{rank:06d}-{self._own}-{areas.own_node()}"
        self._beat = Beat(os.path.join(self._folder, self._as_member))
        self._others: dict[str, Watched] = {}

    def leads(self) -> bool:
        """Wait until all nodes are here; whether this one leads. Raises CouldNotRun if they do not come."""
        until = time.monotonic() + self._nodes.seconds
        while time.monotonic() < until:
            here = sorted([self._as_member, *self._alive()])
            if len(here) > self._nodes.number:
                raise CouldNotRun(f"{len(here)} nodes came to a launch on {self._nodes.number}: {_listed(here)}")
            if len(here) == self._nodes.number:
                return here[0] == self._as_member
            if os.path.exists(self._path(f"{_ANSWER}{self._own}")):
                return False  # the others have seen all first
            time.sleep(_TICK)
        came = _listed([self._as_member, *self._alive()])
        raise CouldNotRun(
            f"only {came} of {self._nodes.number} nodes started ds-lint smoke within {self._nodes.seconds:g} s "
            f"(--node-timeout): start it on each, in a folder that all nodes share: {os.path.dirname(self._folder)}"
        )

    def lead(self, folder: str) -> list[str]:
        """Give the other nodes the folder of the run, and wait until they see it; their names."""
        others = self._alive()
        for member in others:
            answer = {"folder": folder, "leader": areas.own_node()}
            _write(self._path(f"{_ANSWER}{_token(member)}"), json.dumps(answer))
        until = time.monotonic() + self._nodes.seconds
        missing = others
        while missing and time.monotonic() < until:
            self._beat.go_on()
            time.sleep(_TICK)
            missing = [one for one in others if not os.path.exists(os.path.join(folder, f"{_CAME}{_token(one)}"))]
        self.leave(is_last=True)
        if missing:
            raise CouldNotRun(
                f"{_listed(missing)} does not see {folder}: name a folder that all nodes share (--folder)"
            )
        return [_node_of(one) for one in others]

    def follow(self) -> Led:
        """Wait for the folder of the run."""
        until = time.monotonic() + self._nodes.seconds
        path = self._path(f"{_ANSWER}{self._own}")
        while not os.path.exists(path):
            self._beat.go_on()
            if time.monotonic() > until:
                raise CouldNotRun("the other nodes have gone before the run began")
            time.sleep(_TICK)
        with open(path, encoding="utf-8") as file:
            found = Led(**json.load(file))
        if not os.path.isdir(found.folder):
            raise CouldNotRun(
                f"{areas.own_node()} does not see {found.folder}, which {found.leader} has made (--folder)"
            )
        _write(os.path.join(found.folder, f"{_CAME}{self._own}"), "")
        return found

    def leave(self, *, is_last: bool = False) -> None:
        """Remove what this node has left; the last one removes the folder."""
        if is_last:
            shutil.rmtree(self._folder, ignore_errors=True)
            return
        for name in (self._as_member, f"{_ANSWER}{self._own}"):
            with contextlib.suppress(OSError):
                os.unlink(self._path(name))
        with contextlib.suppress(OSError):
            os.rmdir(self._folder)

    def _alive(self) -> list[str]:
        """The other nodes that wait now."""
        os.makedirs(self._folder, exist_ok=True)
        self._beat.go_on()
        return sorted(name for name, one in self._watched() if not one.is_lost() and one.beats >= _BEATS)

    def _watched(self) -> Iterator[tuple[str, Watched]]:
        for name in os.listdir(self._folder):
            if name.startswith(_MEMBER) and name != self._as_member and not name.endswith(".new"):
                yield name, self._others.setdefault(name, Watched(self._path(name), patience=15.0))

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _token(member: str) -> str:
    return member.split("-")[2]


def _node_of(member: str) -> str:
    return member.split("-", 3)[3]


def _listed(members: list[str]) -> str:
    return ", ".join(_node_of(one) for one in members)


def _write(path: str, text: str) -> None:
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(f"{path}.new", path)

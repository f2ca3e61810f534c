"""The port at which the ranks of a launch meet, and launches of a script that run at once at the same one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.launches.launch import last_line
from ds_lint.launches.surroundings import LOCAL
from ds_lint.source.counts import count

if TYPE_CHECKING:
    from ds_lint.launches.launch import Launch

_DEEPSPEED = 29500  # TORCH_DISTRIBUTED_DEFAULT_PORT in deepspeed/constants.py
_APART = frozenset({"docker", "podman", "kubectl", "ssh", "srun", "pdsh"})  # a network, or a machine, of its own
# Words between two commands with which the second may not run, or not at the same time.
_PARTS = re.compile(r"\b(?:wait|else|elif|fi|esac|done|exit|return|kill|pkill|fg|while|until)\b|;;|\}|\{|\btrap\b")


def port_of(launch: Launch) -> int | None:
    """The port at which the first rank listens on this machine; None if it is not known, or free by choice."""
    around = launch.surroundings
    if not around.is_complete or around.around is not None or (launch.nodes or 2) > 1:
        return None
    if launch.launcher == "deepspeed":
        return count(around.option("master_port")) if around.has("master_port") else _DEEPSPEED
    if launch.launcher != "torchrun" or around.has("standalone"):
        return None
    if around.has("rdzv_endpoint"):
        host, _, port = (around.option("rdzv_endpoint") or "").rpartition(":")
        return count(port) if host in LOCAL else None
    return count(around.option("master_port"))


def beside(launches: list[Launch], path: str, text: str) -> dict[int, int]:
    """The launches that find their port taken, by their places in the list: the line of the one that has it.

    Both run in the background of the same script, and nothing between them waits or chooses.
    """
    lines = text.split("\n")
    found: dict[int, int] = {}
    running: dict[int, tuple[int, int]] = {}  # by port, the first and the last line of the launch that has it
    for place, launch in enumerate(launches):
        port, last = port_of(launch), last_line(lines, launch.line)
        if port is None or not port or launch.path != path or not _APART.isdisjoint(map(str, launch.command[:2])):
            continue
        before = running.get(port)
        if before is not None and _meets(lines, before[1], launch.line):
            found[place] = before[0]
        elif lines[last - 1].rstrip().endswith("&") and not lines[last - 1].rstrip().endswith("&&"):
            running[port] = (launch.line, last)
    return found


def _meets(lines: list[str], last: int, begin: int) -> bool:
    """Whether a command that begins in a line runs while one in the background does that ends in another, or itself."""
    between = [line.partition("#")[0] for line in lines[last : begin - 1 if begin > last else None]]
    if begin <= last:  # in a loop, which goes on at once
        end = next((place for place, line in enumerate(between) if line.split()[:1] == ["done"]), None)
        return end is not None and not any(map(_PARTS.search, between[:end]))
    return not any(map(_PARTS.search, between))

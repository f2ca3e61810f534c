"""DeepSpeed's hostfile: a line ``HOST slots=N`` for each node (``deepspeed/launcher/runner.py``)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ds_lint.source.counts import count

_LINE = re.compile(r"^(\S+)\s+slots=(\d+)")
MISSING = ("/dev/null", "None")  # no file at all; ``None`` is what Accelerate writes if it has no hostfile


class BadLine(NamedTuple):
    """The first line with which ``_parse_hostfile`` raises; ``line`` counts from 1, and is 0 if the file is empty."""

    line: int
    text: str
    kind: Literal["again", "entry", "empty"]


class Hostfile(NamedTuple):
    """The slots of each node, in the order of the lines, or the line with which DeepSpeed raises."""

    slots: tuple[tuple[str, int], ...] = ()
    bad: BadLine | None = None


def parsed(text: str) -> Hostfile:
    """What ``_parse_hostfile`` makes of a text."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(stripped)
        slots = count(match[2]) if match is not None else None
        if match is None or slots is None:
            return Hostfile(bad=BadLine(number, stripped, "entry"))
        if match[1] in found:
            return Hostfile(bad=BadLine(number, match[1], "again"))
        found[match[1]] = slots
    return Hostfile(tuple(found.items())) if found else Hostfile(bad=BadLine(0, "", "empty"))


def included(resources: dict[str, int] | None, include: str) -> dict[str, int | None]:
    """The processes of each node that ``--include HOST[:SLOT,SLOT]@HOST`` names; None if all slots of a node count."""
    return {host: len(slots) if slots else (resources or {}).get(host) for host, slots in _filter(include).items()}


def without(resources: dict[str, int], exclude: str) -> dict[str, int | None]:
    """The processes of each node without the nodes and slots that ``--exclude`` names."""
    left: dict[str, int | None] = {}
    named = _filter(exclude)
    for host, number in resources.items():
        count_left = number - len(named[host]) if named.get(host) else 0 if host in named else number
        if count_left > 0:
            left[host] = count_left
    return left


def _filter(text: str) -> dict[str, set[str]]:
    """The slots of each node in ``HOST[:SLOT,SLOT]@HOST``; none stands for all (``parse_node_config_list``)."""
    found: dict[str, set[str]] = {}
    for node in text.split("@"):
        host, sign, places = node.strip().partition(":")
        found.setdefault(host, set()).update(places.split(",") if sign else ())
    return found

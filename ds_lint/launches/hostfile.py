"""DeepSpeed's hostfile: a line ``HOST slots=N`` for each node (``deepspeed/launcher/runner.py``)."""

from __future__ import annotations

import re

from ds_lint.source.counts import count

_LINE = re.compile(r"^(\S+) +slots=(\d+)")


def slots(text: str) -> dict[str, int] | None:
    """The processes of each node; None if the text is not one."""
    found: dict[str, int] = {}
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        match = _LINE.match(stripped)
        number = count(match[2]) if match is not None else None
        if match is None or number is None or match[1] in found:
            return None
        found[match[1]] = number
    return found or None


def included(resources: dict[str, int] | None, include: str) -> dict[str, int | None]:
    """The processes of each node that ``--include HOST[:SLOT,SLOT]@HOST`` names; None if all slots of a node count."""
    found: dict[str, int | None] = {}
    for node in include.split("@"):
        host, sign, places = node.strip().partition(":")
        found[host] = len(places.split(",")) if sign else (resources or {}).get(host)
    return found

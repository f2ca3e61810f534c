"""What a release seems to do no more: that more often is a layout which the extractor does not know.

A table that had records and has none is a loss, and so is one that had at least ``MANY`` and has less than half. The
second also holds for a part of a table: the records with one fact, such as ``training_arguments.default``, and of
DeepSpeed a section, such as ``root.zero_optimization``, unless the release refuses it.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.extract.history import Facts

MANY = 8


class Loss(NamedTuple):
    """A table or a part of one, and how many records the earlier and the later release have in it."""

    table: str
    had: int
    has: int


def losses(before: Facts, after: Facts) -> list[Loss]:
    """What the facts of a release lack, compared with those of the release before it."""
    had, has = Counter(dict(_sizes(before))), Counter(dict(_sizes(after)))
    refused = {f"root.{name}" for name, node in _sections(after) if "removed" in node}
    found = [Loss(table, size, has[table]) for table, size in had.items() if table not in refused]
    lost = {one.table: one for one in found if one.has < one.had and (_has_none(one) or _has_few(one))}
    return [one for table, one in lost.items() if table.partition(".")[0] not in lost.keys() - {table}]


def _has_none(loss: Loss) -> bool:
    return not loss.has and "." not in loss.table


def _has_few(loss: Loss) -> bool:
    return loss.had >= MANY and loss.has < loss.had / 2


def _sizes(facts: Facts) -> Iterator[tuple[str, int]]:
    """How many records each table has, and each part of one."""
    for table, known in facts.items():
        if table == "root":
            yield table, _keys_below(known)
            yield from ((f"{table}.{name}", _keys_below(node)) for name, node in _sections(facts))
        elif isinstance(known, dict):
            yield table, len(known)
            records = [record for record in known.values() if isinstance(record, dict)]
            yield from Counter(f"{table}.{fact}" for record in records for fact in record).items()
            yield from ((f"{table}.{name}", len(record)) for name, record in known.items() if table == "constructors")
        else:
            yield table, 1  # DeepSpeed's reader, and the pydantic of its models


def _sections(facts: Facts) -> Iterator[tuple[str, Facts]]:
    """The sections at the top of a config; none for a library without a tree of keys."""
    yield from facts.get("root", {}).get("keys", {}).items()


def _keys_below(node: Facts) -> int:
    """How many keys a release of DeepSpeed reads below a section, at any depth."""
    inner = [*node.get("keys", {}).values(), *(node[part] for part in ("any_key", "items_are") if part in node)]
    return len(node.get("keys", {})) + sum(map(_keys_below, inner))

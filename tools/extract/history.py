"""A store of facts: tables of named records, each with the runs of releases over which it held.

A record that every release of the store has as it is stands there itself; any other is a list of ``runs``, each with
``since`` and, unless it still holds in the newest release, ``until`` (both included).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ds_lint.knowledge.stacks import records
from tools.extract.releases import number

if TYPE_CHECKING:
    from collections.abc import Iterator

Facts = dict[str, Any]  # of one release: the name of a table to its records
_HEAD = ("library", "releases")
_ABSENT = object()


def at(store: Any, release: str) -> Facts:
    """The facts of one release that the store knows."""
    return {table: records(store, table, release) for table in store if table not in _HEAD}


def merged(store: Facts, release: str, facts: Facts) -> Facts:
    """The store with the facts of one more release, or with other facts of one that it has."""
    releases = sorted({*store["releases"], release}, key=number)
    everything = {one: facts if one == release else at(store, one) for one in releases}
    tables = dict.fromkeys(table for known in everything.values() for table in known)
    return {
        "library": store["library"],
        "releases": releases,
        **{table: _histories({one: known.get(table, {}) for one, known in everything.items()}) for table in tables},
    }


def changes(before: Facts, after: Facts) -> list[str]:
    """What is new, removed or different in a later release, one line each."""
    tables = dict.fromkeys([*before, *after])
    return [line for table in tables for line in _changes(table, before.get(table, {}), after.get(table, {}))]


def _histories(records: dict[str, Facts]) -> Facts:
    """One table of the store, from the records that each release has in it."""
    names = sorted({name for known in records.values() for name in known})
    return {name: _history({one: known.get(name) for one, known in records.items()}) for name in names}


def _history(records: dict[str, Facts | None]) -> Facts:
    """The runs of one record; None stands for releases that do not have it."""
    runs: list[Facts] = []
    last: Facts | None = None
    for release, record in records.items():
        if record is not None and _is_same(record, last):
            runs[-1]["until"] = release
        elif record is not None:
            runs.append({"since": release, "until": release, **record})
        last = record
    first, newest = next(iter(records)), next(reversed(records))
    if runs[0]["since"] == first and runs[0]["until"] == newest:
        return {name: fact for name, fact in runs[0].items() if name not in ("since", "until")}
    if runs[-1]["until"] == newest:
        del runs[-1]["until"]
    return {"runs": runs}


def _is_same(one: Facts, other: Facts | None) -> bool:
    """Whether two records are the same as JSON: 1e8 and 100000000 are equal, but other texts for a parser."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _changes(table: str, before: Facts, after: Facts) -> Iterator[str]:
    for name in sorted({*before, *after}):
        if name not in after:
            yield f"{table}: `{name}` is gone"
        elif name not in before:
            yield f"{table}: `{name}` is new{_listed(after[name])}"
        elif before[name] != after[name]:
            yield f"{table}: `{name}`: {_differences(before[name], after[name])}"


def _listed(record: Facts) -> str:
    return f": {', '.join(f'{name} {_shown(fact)}' for name, fact in record.items())}" if record else ""


def _differences(before: Facts, after: Facts) -> str:
    differing = [name for name in {**before, **after} if before.get(name, _ABSENT) != after.get(name, _ABSENT)]
    return ", ".join(
        f"{name} {_shown(before.get(name, _ABSENT))} became {_shown(after.get(name, _ABSENT))}" for name in differing
    )


def _shown(fact: Any) -> str:
    return "nothing" if fact is _ABSENT else json.dumps(fact, ensure_ascii=False)

"""What the Trainer and Accelerate do to a config, for one release of each.

``schemas/transformers.json`` and ``schemas/accelerate.json`` hold what was extracted from every release, a table for
each kind of fact; ``schemas/trainer_overlay.json`` says in words what their source says in Python.
"""

from __future__ import annotations

from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, TypeVar

    from ds_lint.knowledge.records import (
        Defaults,
        FieldDefault,
        Fill,
        ModelFacts,
        PresetChange,
        PresetFacts,
        PresetStore,
        RefusalFacts,
        RefusalStore,
        StackBehaviour,
        StackFacts,
        StackLibrary,
        StackRecord,
        StackStore,
        StackTable,
        Store,
        TrainerFacts,
    )

    Record = TypeVar(
        "Record",
        StackFacts, ModelFacts, StackBehaviour, Defaults, PresetFacts, PresetChange, RefusalFacts, FieldDefault,
    )  # fmt: skip
    Partial = dict[str, Any]  # what is to be a Fill or an Overwrite: each step below adds to it

TRAINER_TABLES: tuple[StackTable, ...] = ("fills", "overwrites", "requires")  # what ``trainer_facts`` looks at


def trainer_facts(transformers: str | None = None, accelerate: str | None = None) -> TrainerFacts:
    """Which keys these two releases fill, match and overwrite; the newest known ones where none is named.

    ``with`` says what the Trainer does, and for keys that it leaves to Accelerate, what Accelerate does.
    """
    trainer, plugin, words = tables.load("transformers"), tables.load("accelerate"), tables.load("trainer_overlay")
    transformers = transformers or trainer["releases"][-1]
    accelerate = accelerate or plugin["releases"][-1]
    prepares = records(trainer, "requires", transformers)["accelerate"]["prepares"]
    fills = _joined(
        _fills(records(trainer, "fills", transformers), words["fills"]),
        _fills(records(plugin, "fills", accelerate), words["fills"]),
        prepares,
    )
    overwrites = _joined(
        _overwrites(records(trainer, "overwrites", transformers), words["overwrites"]),
        _overwrites(records(plugin, "overwrites", accelerate), words["overwrites"]),
        prepares,
    )
    return {
        "transformers": transformers,
        "accelerate": accelerate,
        "fills": {**{path: _as_fill(overwrite) for path, overwrite in overwrites.items()}, **fills},
        "overwrites": {path: {"with": facts["with"], "by": facts["by"]} for path, facts in overwrites.items()},
    }


def alike(library: StackLibrary, release: str, records: Iterable[StackRecord]) -> list[str]:
    """The releases up to this one, oldest first, of which these records say the same as of it."""
    releases = tables.load(library)["releases"]
    until = releases.index(release)
    runs = [run for record in records for run in record.get("runs", ())]
    begins = {run["since"] for run in runs}
    ends = {run["until"] for run in runs if "until" in run}
    first = until
    while first and releases[first] not in begins and releases[first - 1] not in ends:
        first -= 1
    return releases[first : until + 1]


def next_change(library: StackLibrary, path: str, release: str) -> str | None:
    """The first release after this one that fills a key in another way, or None."""
    store = tables.load(library)
    order = {one: place for place, one in enumerate(store["releases"])}
    later = (run["since"] for run in store["fills"].get(path, {}).get("runs", ()))
    return next((since for since in later if order[since] > order[release]), None)


def beginning(library: StackLibrary, table: StackTable) -> str:
    """The first release of which a table tells anything."""
    store = tables.load(library)
    order = {one: place for place, one in enumerate(store["releases"])}
    first = (
        record["runs"][0]["since"] if "runs" in record else store["releases"][0] for record in store[table].values()
    )
    return min(first, key=order.__getitem__)


def records(store: StackStore, table: StackTable, release: str) -> dict[str, StackFacts]:
    """One table of a store as one release has it: the facts by their names."""
    order = {one: place for place, one in enumerate(store["releases"])}
    runs = ((name, _run(record, order, order[release])) for name, record in store[table].items())
    return {name: run for name, run in runs if run is not None}


def record_at(store: Store | PresetStore | RefusalStore, record: Record, release: str) -> Record | None:
    """The facts of one record as a release of the store has it, or None where it has no such record."""
    order = {one: place for place, one in enumerate(store["releases"])}
    return _run(record, order, order[release])


def _run(record: Record, order: dict[str, int], place: int) -> Record | None:
    """The facts of one record at this place in the order of releases, or None where they have no such record."""
    if "runs" not in record:
        return record
    for run in record["runs"]:
        if order[run["since"]] <= place and ("until" not in run or place <= order[run["until"]]):
            facts: Record = run.copy()
            facts.pop("since", None)
            facts.pop("until", None)
            return facts
    return None


def _fills(extracted: dict[str, StackFacts], words: dict[str, dict[str, str]]) -> dict[str, Partial]:
    """What an ``"auto"`` is replaced by: the first source, which the later ones only stand in for."""
    first = {path: facts["sources"][0] for path, facts in extracted.items()}
    return {
        path: {
            "with": words.get(path, {}).get(source["from"], source["from"]),
            "matched": source["matched"],
            "number": source.get("number"),
            "floored": source["from"].startswith("max(1, "),
        }
        for path, source in first.items()
    }


def _overwrites(extracted: dict[str, StackFacts], words: dict[str, dict[str, str]]) -> dict[str, Partial]:
    """What is written over any value.

    Where it is written on a condition, only words can say whether a config alone tells that it holds: no words, no
    claim.
    """
    found = {}
    for path, facts in extracted.items():
        for source in facts["sources"]:
            text = words.get(path, {}).get(source["with"])
            if text or "only_if" not in source:
                found[path] = {"with": text or source["with"], "always": "only_if" not in source}
    return found


def _joined(trainer: dict[str, Partial], accelerate: dict[str, Partial], prepares: bool) -> dict[str, Any]:
    """The facts of both, and by whom; on the stack of the Trainer, Accelerate acts too where it prepares the engine.

    Where the two do not do the same, ``by`` names both and the facts are the Trainer's, but ``floored`` and ``number``
    are given for each stack.
    """
    joined = {}
    for path, facts in {**accelerate, **trainer}.items():
        by = ["trainer"] if path in trainer or prepares else []
        by += ["accelerate"] if path in accelerate else []
        own = {"trainer": facts, "accelerate": accelerate.get(path, facts)}
        joined[path] = {**facts, "by": by} | {
            trait: {stack: own[stack][trait] for stack in by} for trait in ("floored", "number") if trait in facts
        }
    return joined


def _as_fill(overwrite: Partial) -> Fill:
    """An overwritten key in the words of a filled one: any value is replaced, and so is ``"auto"``."""
    text = f"{overwrite['with']}, whatever it says" if overwrite["always"] else overwrite["with"]
    stacks = overwrite["by"]
    floored, number = dict.fromkeys(stacks, False), dict.fromkeys(stacks)
    return {"with": text, "by": stacks, "matched": False, "floored": floored, "number": number}

"""Bring ``schemas/recipes.json`` up to new releases of the frameworks that people write recipes for.

    python -m tools.extract.recipes axolotl 0.20.0
    python -m tools.extract.recipes ms-swift 4.7.0 4.8.0 --check
    python -m tools.extract.recipes --cache DIR [--check]

The store says which releases were read, as states: releases that agree are one, and where states disagree, ds-lint
knows nothing. The state with the newest release is the last. Without a framework, all releases of the store are read
again: what they say also depends on the training arguments that ``schemas/transformers.json`` knows. Standard output is
the change log, and ``--allow-loss`` means the same as for ``tools.extract``.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from tools.extract import history
from tools.extract.framework_stores import FrameworkStore
from tools.extract.framework_stores import main as run
from tools.extract.frameworks import FRAMEWORKS, SCHEMAS, Facts, extract
from tools.extract.reading import earlier_than, entry, refuse_losses
from tools.extract.releases import number

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

__all__ = ["FRAMEWORKS", "STORE", "extract", "joined", "main", "merged"]


class _States(FrameworkStore):
    """The releases of a record lie in its states, and its fields are those of all of them together."""

    def releases(self, record: Facts) -> list[str]:
        return sorted((release for state in record.get("states", ()) for release in state["releases"]), key=number)

    def empty(self, name: str) -> Facts:
        return {"package": self.frameworks[name].package, "fields": [], "states": []}

    def joined(self, record: Facts, release: str, facts: Facts) -> Facts:
        return joined(record, release, facts)

    def rests_on(self) -> dict[str, str]:
        """The newest release of transformers that is known: its arguments are not fields of a framework's own."""
        store = json.loads((SCHEMAS / "transformers.json").read_text(encoding="utf-8"))
        return {"transformers": str(store["releases"][-1])}

    def with_release(self, name: str, record: Facts, release: str, options: argparse.Namespace) -> Facts:
        """The release before is read again for its fields; with --tree only new fields are listed."""
        facts, package = self.facts(name, release, options), self.frameworks[name].package
        earlier = earlier_than(release, self.releases(record))
        before: Facts = {}
        if earlier and options.tree:
            before = {**_at(record, earlier), "fields": record["fields"]}
        elif earlier:
            before = self.facts(name, earlier, options)
            if not _is_same(_without_fields(before), _at(record, earlier)):
                sys.stderr.write(f"the store says something else of {package} {earlier}: all are read again\n")
                record = self.read_again(name, record, options)
        now = {**facts, "fields": sorted({*facts["fields"], *before.get("fields", ())})} if options.tree else facts
        if earlier and release not in self.releases(record):
            refuse_losses(f"{package} {release}", _findings(now), earlier, _findings(before), options.allow_loss)
        changes = history.changes(_tables(before), _tables(now)) if earlier else []
        sys.stdout.write(entry(f"{package} {release}", earlier, changes))
        return self.joined(record, release, facts)


STORE = _States("recipes", FRAMEWORKS, extract)
main = partial(run, STORE, __doc__)


def merged(name: str, releases: Iterable[tuple[str, Facts]]) -> Facts:
    """The record of a framework whose releases say this."""
    record = STORE.empty(name)
    for release, facts in releases:
        record = joined(record, release, facts)
    return record


def joined(record: Facts, release: str, facts: Facts) -> Facts:
    """The record of a framework with one more release, or with other facts of one that it has."""
    states = [{**one, "releases": [each for each in one["releases"] if each != release]} for one in record["states"]]
    says = _without_fields(facts)
    same = next((one for one in states if _is_same(_of_state(one), says)), None)
    if same is None:
        states.append(same := {"releases": [], **says})
    same["releases"] = sorted([*same["releases"], release], key=number)
    states = sorted((one for one in states if one["releases"]), key=lambda one: number(one["releases"][-1]))
    fields = sorted({*record["fields"], *facts["fields"]})
    return {"package": record["package"], "fields": fields, "states": states}


def _at(record: Facts, release: str) -> Facts:
    """What a release of a record says, but for its fields, which the record has of all releases together."""
    return next(_of_state(state) for state in record["states"] if release in state["releases"])


def _of_state(state: Facts) -> Facts:
    return {name: known for name, known in state.items() if name != "releases"}


def _without_fields(facts: Facts) -> Facts:
    return {name: known for name, known in facts.items() if name != "fields"}


def _tables(facts: Facts) -> Facts:
    """The facts of a release as tables of named records, as the change log takes them."""
    tables: Facts = {}
    for name, known in facts.items():
        if isinstance(known, dict):
            tables[name] = {key: {"uses" if name == "arguments" else "default": value} for key, value in known.items()}
        else:
            tables[name] = {key: {} for key in known}
    return tables


def _findings(facts: Facts) -> Facts:
    """The tables of which a release may have lost something; to know more of what was unknown is none."""
    return {name: known for name, known in _tables(facts).items() if name != "unknown"}


def _is_same(one: Facts, other: Facts) -> bool:
    """Whether two releases say the same; 1, 1.0 and True differ."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())

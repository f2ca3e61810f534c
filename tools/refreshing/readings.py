"""What is read off the source of releases, without installing them: which of them the stores do not have yet."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from tools.extract import __main__ as extract
from tools.extract import presets, recipe_fields, recipes, refusals
from tools.extract.releases import number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

OF_FRAMEWORKS = (recipes.STORE, recipe_fields.STORE, presets.STORE, refusals.STORE)


class Reading(NamedTuple):
    """An extractor, as it is run for releases of a library."""

    library: str  # on the package index
    module: str
    name: str  # of the library, for the extractor
    known: Callable[[], list[str]]  # the releases that its store has, oldest first
    reads_each: bool = True  # every final release, also of an older line; else only the newest

    def missing(self, available: Sequence[str]) -> list[str]:
        """The releases on the package index that the store lacks, oldest first."""
        known = self.known()
        if self.reads_each:
            return [one for one in available if one not in known and number(one) > number(known[0])]
        return [one for one in available[-1:] if number(one) > number(known[-1])]


def readings() -> list[Reading]:
    """Every extractor."""
    return list(_readings())


def _readings() -> Iterator[Reading]:
    for name, library in extract.LIBRARIES.items():
        # The store of torch does not have every patch of its older lines.
        yield Reading(
            library.LIBRARY, "tools.extract", name, partial(_stored, library.STORE), library.LIBRARY != "torch"
        )
    for store in OF_FRAMEWORKS:
        reads_each = store is not recipes.STORE  # which has a few releases of each framework
        for name, framework in store.frameworks.items():
            package, module = framework.package, f"tools.extract.{store.name}"
            yield Reading(package, module, package, partial(store.known, name), reads_each)


def _stored(store: Path) -> list[str]:
    found: list[str] = json.loads(store.read_text(encoding="utf-8"))["releases"]
    return found


def newest_read() -> dict[str, str]:
    """The newest release of each library that every extractor of it has read."""
    found: dict[str, str] = {}
    for reading in readings():
        release = reading.known()[-1]
        found[reading.library] = min(found.get(reading.library, release), release, key=number)
    return found


def behind(available: Mapping[str, Sequence[str]]) -> list[tuple[Reading, list[str]]]:
    """The extractors with releases to read."""
    found = ((one, one.missing(available[one.library])) for one in readings() if one.library in available)
    return [(one, releases) for one, releases in found if releases]

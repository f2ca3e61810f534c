"""Which fields a release of a training framework takes, by ``schemas/recipe_fields.json``."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

from ds_lint.knowledge import tables
from ds_lint.knowledge.argument_types import reading_of
from ds_lint.targets.releases import allowed, numbers_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ds_lint.frameworks.record import Framework
    from ds_lint.knowledge.records import FrameworkField, StackFacts
    from ds_lint.targets.pin import Pin

_TRANSFORMERS = "transformers"
_LIKENESS = 0.84  # of difflib: a name mistyped
_NEWER_THAN_ALL = "999999"


class History(NamedTuple):
    """What is known of a field that the releases in question lack: the last before that has it, the first after.

    Empty where there is none.
    """

    package: str = ""
    last: str = ""
    removed_in: str = ""  # the release after the last one that has it
    first: str = ""


class FrameworkFields:
    """The fields that the releases of a framework take that a project may have.

    ``releases`` are those, oldest first; ``is_open`` says that newer ones are possible, too, which nothing is known of.
    ``own`` are the fields of a copy of the framework that the project carries, which then counts instead.
    """

    def __init__(self, framework: Framework, pins: Mapping[str, Pin], own: frozenset[str] | None = None) -> None:
        self.framework = framework
        self._store = tables.load("recipe_fields")
        known = self._store["frameworks"][framework.name]
        self._known = known
        self.own = own
        self._pin = pins.get(framework.package)
        self.releases, self.is_open = self._possible()
        layout = framework.fields
        self.inherits = layout is not None and not layout.is_pydantic
        self._transformers = self._pinned_transformers(pins.get(_TRANSFORMERS))

    def _possible(self) -> tuple[list[str], bool]:
        every = self._known["releases"]
        if self._pin is None or not self._pin.specifier:
            return every, True
        found = allowed(self._pin.specifier, every)
        return (found or every), not found or bool(
            allowed(self._pin.specifier, [*every, _NEWER_THAN_ALL])[len(found) :]
        )

    @property
    def is_pinned(self) -> bool:
        """Whether the project says which releases it uses."""
        return self._pin is not None and bool(self._pin.specifier)

    def _pinned_transformers(self, pin: Pin | None) -> list[str] | None:
        """The releases of transformers that the project pins; None if it pins none that is known."""
        is_of_framework = self._pin is not None and self._pin.is_installed
        if pin is None or not pin.specifier or (pin.is_installed and not is_of_framework):
            return None  # the environment of ds-lint, and not that of the framework
        return allowed(pin.specifier, tables.load("transformers")["releases"]) or None

    def transformers(self, release: str) -> list[str]:
        """The releases of transformers that a release of the framework may run with."""
        if self._transformers is not None:
            return self._transformers
        every = tables.load("transformers")["releases"]
        demanded = _at(self._known["requires"].get(_TRANSFORMERS), release, self._known["releases"])
        return (allowed(demanded.get("specifier", ""), every) if demanded else []) or every

    def facts(self, name: str, release: str, command: str = "") -> FrameworkField | None:
        """What a release says of a field; None if it has none of this name."""
        found = _at(self._known["fields"].get(name), release, self._known["releases"])
        if found is not None:
            commands = found.get("commands")
            return found if not command or commands is None or command in commands else None
        if not self.inherits:
            return None
        return _common([_inherited(name, one) for one in self.transformers(release)])

    def lacking(self, name: str, command: str = "", *, is_flag: bool = False) -> list[str]:
        """The releases in question that have no such field, or no such option of the command line."""
        if self.own is not None and not self.own:  # a copy that cannot be read
            return []
        if self.own is not None:
            taken = name in self.own or (self.inherits and self.is_inherited(name))
            return [] if taken else [""]
        found = [(one, self.facts(name, one, command)) for one in self.releases]
        return [one for one, facts in found if facts is None or (is_flag and facts.get("is_read"))]

    @property
    def take_pairs(self) -> bool:
        """Whether a release in question takes ``key=value`` behind a recipe."""
        return bool(_order(self.releases[-1]) >= _order(self.framework.pairs_since))

    @property
    def refuse_keys_twice(self) -> bool:
        """Whether all releases in question refuse a recipe that has a key twice."""
        since, before = self.framework.keys_once
        is_new = bool(since) and _order(self.releases[0]) >= _order(since)
        return is_new and (not before or bool(_order(self.releases[-1]) < _order(before)))

    def is_inherited(self, name: str) -> bool:
        """Whether a field is one of transformers."""
        return any(name in table for table in _tables())

    def history(self, name: str) -> History:
        """Which known releases have a field that those in question lack."""
        every = self._known["releases"]
        having = [one for one in every if _at(self._known["fields"].get(name), one, every) is not None]
        package = self.framework.name
        lacking = self.releases
        if not having and self.inherits:
            every = tables.load("transformers")["releases"]
            record = next((table[name] for table in _tables() if name in table), None)
            having = [one for one in every if _at(record, one, every) is not None]
            package = _TRANSFORMERS
            lacking = [one for release in self.releases for one in self.transformers(release)]
        if not having or not lacking:
            return History()
        before = [one for one in having if _order(one) < min(map(_order, lacking))]
        after = [one for one in having if _order(one) > max(map(_order, lacking))]
        last = before[-1] if before else ""
        return History(package, last, every[every.index(last) + 1] if last else "", after[0] if after else "")

    def names(self, command: str = "") -> set[str]:
        """The fields of the newest release in question."""
        if self.own is not None:
            return set(self.own)
        newest = self.releases[-1]
        found = {
            name
            for name in self._known["fields"]
            if (one := self.facts(name, newest, command)) is not None and not one.get("is_read")
        }
        if self.inherits:
            found.update(name for table in _tables() for name in table if self.facts(name, newest) is not None)
        return found

    def meant(self, name: str, command: str = "") -> str | None:
        """The field that a name was most likely meant for; None if none is close."""
        close = get_close_matches(name.lower(), sorted(self.names(command)), 1, _LIKENESS)
        return close[0] if close else None


def _tables() -> tuple[dict[str, StackFacts], ...]:
    """The fields of the class of transformers that the frameworks inherit from."""
    store = tables.load("transformers")
    return store["training_arguments"], store["seq2seq_arguments"]


@cache
def _inherited(name: str, transformers: str) -> FrameworkField | None:
    """What a release of transformers says of a field; None if it has none of this name."""
    store = tables.load("transformers")
    for table in _tables():
        field = _at(table.get(name), transformers, store["releases"])
        if field is not None:
            return cast("FrameworkField", reading_of(_spelled(field["type"], transformers)))
    return None


def _spelled(declared: str, transformers: str) -> str:
    """A type with the values of the enumerations that it names."""
    store = tables.load("transformers")
    for name, record in store["words"].items():
        if name in declared and (words := _at(record, transformers, store["releases"])) is not None:
            declared = re.sub(rf"\b{name}\b", f"Literal{words['choices']!r}", declared)
    return declared


def _common(found: list[FrameworkField | None]) -> FrameworkField | None:
    """What is certain of a field that has these facts in releases that are possible; None if none of them has it."""
    having = [one for one in found if one is not None]
    if not having:
        return None
    return having[0] if all(one == having[0] for one in found) else {}


def _order(release: str) -> Any:
    return numbers_of(release) or ()


def _at(record: Any, release: str, releases: Sequence[str]) -> Any:
    """What a record says of a release; None if that does not have it."""
    if record is None:
        return None
    for run in record.get("runs", ()):
        since, until = run.get("since"), run.get("until")
        if _order(since) <= _order(release) and (until is None or _order(release) <= _order(until)):
            return run
    return None if "runs" in record else record

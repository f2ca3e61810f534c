"""The default that a class of trl has for a training argument, which depends on the release of trl."""

from __future__ import annotations

from ds_lint.knowledge import trl
from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

OF_TRANSFORMERS = object()  # the class leaves the field as it is


class ClassDefault:
    """The default of a field of a class, by the name that the store of trl has for the class."""

    __slots__ = ("cls", "field")

    def __init__(self, cls: str, field: str) -> None:
        self.cls = cls
        self.field = field

    def __repr__(self) -> str:
        return f"ClassDefault({self.cls!r}, {self.field!r})"

    def at(self, releases: Sequence[str], value_of: Callable[[str], Any]) -> Any:
        """The value in these releases; UNKNOWN where they differ, or an expression of other fields is not known."""
        found: list[Any] = []
        for release in releases:
            known = trl.classes(release).get(self.cls)
            if known is None:
                continue
            value: Any = OF_TRANSFORMERS
            if self.field in known.sets:
                value = UNKNOWN
            elif (facts := known.fields.get(self.field)) is not None:
                value = facts.get("default", UNKNOWN)
                if value is None and "if_null" in facts:
                    value = evaluate(facts["if_null"], value_of)
            if not any(value is one or (type(value) is type(one) and value == one) for one in found):
                found.append(value)
        return found[0] if len(found) == 1 else UNKNOWN


def differing(cls: str) -> set[str]:
    """The fields that a class, or one that it is below, declares or sets in some release."""
    releases = trl.releases()
    found = [known for one in releases if (known := trl.classes(one).get(cls)) is not None]
    return {name for known in found for name in (*known.fields, *known.sets)}

"""What the parts of the evaluator need of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.state import Heap
    from ds_lint.source.evaluation.values import Arguments, Place, Slot, Value


class Evaluator(Protocol):
    """Runs functions of the module, and the branches that may be taken."""

    state: Heap

    def call(self, function: Value, arguments: Arguments, place: Place) -> Value:
        """What a call returns."""

    def truth(self, value: Value) -> bool | None:
        """Whether a value is true; None if that does not show."""

    def items(self, value: Value) -> list[Slot] | None:
        """What a loop over a value gets; None if that does not show."""

    def attribute(self, value: Value, name: str, place: Place) -> Value:
        """An attribute of a value."""

    def set_attribute(self, value: Value, name: str, slot: Slot) -> None:
        """Give an attribute of a value another one."""

    def item(self, container: Value, key: Value, place: Place) -> Value:
        """What is under a key."""

    def set_item(self, container: Value, key: Value, slot: Slot) -> None:
        """Put a value under a key."""

    def equal(self, one: Value, other: Value) -> bool | None:
        """Whether two values are equal; None if that does not show."""

    def perhaps(self, run: Callable[[], object]) -> None:
        """Run what may be run or not."""

"""What the parts of the evaluator have in common, and what they need of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import ast
    from collections.abc import Callable

    from ds_lint.source.evaluation.frames import CallFrame, RunningTry
    from ds_lint.source.evaluation.relevance import Relevance
    from ds_lint.source.evaluation.state import Heap
    from ds_lint.source.evaluation.values import (
        Arguments,
        Class,
        Dict,
        Environment,
        ModuleFunction,
        Object,
        Place,
        Slot,
        Value,
    )


class Evaluator(Protocol):
    """The run of a module: where it is, what it has met, and what runs its statements, expressions and calls."""

    state: Heap
    reading: frozenset[ast.Call]
    watch: Callable[[ast.Call, Arguments], None] | None
    made: dict[ast.AST, list[Dict]]
    globals: Environment
    relevance: Relevance

    # Where it is.
    frame: CallFrame
    stack: list[ast.AST]
    forks: list[int]
    tries: list[RunningTry]
    depth: int
    repeating: int

    # What it has met.
    functions: dict[ast.AST, ModuleFunction]
    generic: dict[Class, Object]
    entered: set[ast.AST]
    awaited: set[ast.AST | None]
    escaping: set[ModuleFunction]
    patched: set[str]
    has_star: bool

    def step(self) -> None:
        """Count a step, of which there are so many."""

    def risk(self) -> None:
        """Note that something may raise that does not show."""

    def block(self, statements: list[ast.stmt]) -> str:
        """Run statements, up to one that leaves them; what becomes of it."""

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression."""

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

    def perhaps(self, action: Callable[[], object]) -> None:
        """Run what may be run or not."""

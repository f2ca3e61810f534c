"""What the names of a Python module stand for, as far as that shows without running it.

A name is the dotted text of a variable or attribute, such as ``ds_config`` or ``self.ds_config``. A variable belongs to
the function that binds it, else to the module; an attribute to the module, whichever object it is of.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
_BLOCKS_THAT_RUN = (ast.With, ast.AsyncWith)  # their statements run whenever they are reached


class StatementPlace(NamedTuple):
    """Where a node is: in which function, and in which list of statements that run one after the other."""

    scope: Scope
    block: int  # two nodes with the same number are in one sequence


class Assignment(NamedTuple):
    """A name gets a value; ``value`` is None if that does not show, as for the element of a loop."""

    name: str
    value: ast.expr | None
    place: StatementPlace


class ModuleNames:
    """The assignments, calls and places of a module."""

    def __init__(self, module: ast.Module) -> None:
        self.calls: list[ast.Call] = []
        self.functions: dict[str, list[ast.FunctionDef | ast.AsyncFunctionDef]] = {}
        self.uses: dict[str, list[ast.expr]] = {}  # of a name: where it is read
        self.parents: dict[ast.AST, ast.AST] = {}
        self.places: dict[ast.AST, StatementPlace] = {}
        self._blocks = 0
        self._assignments: dict[tuple[Scope | None, str], list[Assignment]] = {}
        self._module = module
        self._enter(module, module)

    def assignments(self, name: str, at: ast.AST) -> list[Assignment]:
        """The assignments to the variable or attribute that a name means at a node."""
        if "." in name:
            return self._assignments.get((None, name), [])
        scope: Scope | None = self.places[at].scope
        while scope is not None:
            if found := self._assignments.get((scope, name)):
                return found
            scope = self._around(scope)
        return []

    def origin(self, name: str, at: ast.AST) -> Scope | None:
        """The function, or the module, that a variable belongs to; None for an attribute."""
        found = self.assignments(name, at)
        return found[0].place.scope if found and "." not in name else None

    def means_the_same(self, name: str, one: ast.AST, other: ast.AST) -> bool:
        """Whether a name is the same variable or attribute at two nodes."""
        return "." in name or self.origin(name, one) is self.origin(name, other)

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that an expression is part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def repeats(self, one: ast.AST, other: ast.AST, beside: ast.AST) -> bool:
        """Whether a loop runs two nodes several times, and not a third."""
        return bool((self._loops(one) & self._loops(other)) - self._loops(beside))

    def _loops(self, node: ast.AST) -> set[ast.AST]:
        found: set[ast.AST] = set()
        while (around := self.parents.get(node)) is not None:
            if isinstance(around, _LOOPS):
                found.add(around)
            node = around
        return found

    def _around(self, scope: Scope) -> Scope | None:
        return None if scope is self._module else self.places[scope].scope

    def _enter(self, scope: Scope, node: ast.AST) -> None:
        """Visit a tree, without recursion: an expression may nest deeper than Python's stack."""
        pending: list[tuple[ast.AST, StatementPlace]] = [(node, StatementPlace(scope, 0))]
        while pending:
            current, place = pending.pop()
            self.places[current] = place
            self._record(current, place)
            below = [(child, self._place_of(field, child, current, place)) for field, child in _children(current)]
            for child, _ in below:
                self.parents[child] = current
            pending += reversed(below)

    def _place_of(self, field: str, child: ast.AST, parent: ast.AST, place: StatementPlace) -> StatementPlace:
        if isinstance(parent, _FUNCTIONS):
            return StatementPlace(parent, self._block_of(parent, "body")) if field == "body" else place
        if isinstance(child, (ast.stmt, ast.ExceptHandler)) and not isinstance(parent, (ast.Module, *_BLOCKS_THAT_RUN)):
            return StatementPlace(place.scope, self._block_of(parent, field))
        return place

    def _block_of(self, parent: ast.AST, field: str) -> int:
        """A number for the statements in a field of a node, such as the ``orelse`` of an ``if``."""
        numbers: dict[str, int] = parent.__dict__.setdefault("_blocks", {})
        if field not in numbers:
            self._blocks += 1
            numbers[field] = self._blocks
        return numbers[field]

    def _record(self, node: ast.AST, place: StatementPlace) -> None:
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, _FUNCTIONS):
            if not isinstance(node, ast.Lambda):
                self.functions.setdefault(node.name, []).append(node)
            for argument in _arguments(node.args):
                self._bind(argument, None, StatementPlace(node, self._block_of(node, "body")))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            if node.value is not None and _is_whole_target(target, node) and (name := dotted_name(target)):
                self._bind(name, node.value, place)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            for name in node.names:
                self._bind(name, None, StatementPlace(self._module, -1))  # another function may give it any value
        elif name := dotted_name(node):
            self._record_name(name, node, place)

    def _record_name(self, name: str, node: ast.AST, place: StatementPlace) -> None:
        assert isinstance(node, (ast.Name, ast.Attribute))  # noqa: S101 - what has a dotted name
        if isinstance(node.ctx, ast.Load) or is_united(node, self.parents.get(node)):
            self.uses.setdefault(name, []).append(node)
        elif not _is_whole_target(node, self.parents.get(node)):
            self._bind(name, None, place)

    def _bind(self, name: str, value: ast.expr | None, place: StatementPlace) -> None:
        owner = None if "." in name else place.scope
        self._assignments.setdefault((owner, name), []).append(Assignment(name, value, place))


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The nodes right below one, each with the name of its field."""
    for field, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield field, value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield field, item


def dotted_name(node: ast.AST) -> str:
    """A variable or attribute as text; empty for any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def is_united(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a name is the dict that ``config |= {...}`` changes, which it means before and after."""
    return isinstance(parent, ast.AugAssign) and parent.target is node and isinstance(parent.op, ast.BitOr)


def _is_whole_target(node: ast.AST, parent: ast.AST | None) -> bool:
    """Whether a name is all that an assignment assigns to, which is recorded with the value."""
    return (isinstance(parent, ast.Assign) and parent.targets == [node]) or (
        isinstance(parent, ast.AnnAssign) and parent.target is node
    )


def _arguments(arguments: ast.arguments) -> Iterator[str]:
    for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        yield argument.arg
    for argument_or_none in (arguments.vararg, arguments.kwarg):
        if argument_or_none is not None:
            yield argument_or_none.arg

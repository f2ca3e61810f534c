"""What the names of a Python module stand for, as far as that shows without running it.

A name is the dotted text of a variable or attribute, such as ``ds_config`` or ``self.ds_config``. A variable belongs to
the function that binds it, else to the module; an attribute to the module, whichever object it is of.
"""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
_BLOCKS_THAT_RUN = (ast.With, ast.AsyncWith)  # their statements run whenever they are reached
_IN_ONE_PLACE = frozenset({  # the classes whose nodes have all that is below them in their own place
    ast.Module, *_BLOCKS_THAT_RUN,
    *(kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.expr)),
    *(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.keyword, ast.arg, ast.arguments),
}) - {ast.Lambda}  # fmt: skip
_RECORDED = frozenset({
    ast.Call, *_FUNCTIONS, ast.Assign, ast.AnnAssign, ast.Global, ast.Nonlocal, ast.Name, ast.Attribute,
})  # fmt: skip
_OF_NO_NODES = frozenset({  # fields that hold texts and numbers, or contexts and operators, which have no place
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module", "name",
    "op", "ops", "rest", "simple", "type_comment", "type_ignores",
})  # fmt: skip

Kind = TypeVar("Kind", bound=ast.AST)


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
        self.module = module
        self._nodes: dict[type[ast.AST], list[ast.AST]] = {}
        self._enter(module)

    def every(self, kind: type[Kind]) -> list[Kind]:
        """The nodes of a class, in the order of the text."""
        return self._nodes.get(kind, [])  # type: ignore[return-value]  # each under its own class

    @functools.cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """The calls of each dotted name, and under the empty one those of anything else."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(dotted_name(call.func), []).append(call)
        return found

    @functools.cached_property
    def calls_by_method(self) -> dict[str, list[ast.Call]]:
        """The calls of each method, whatever it belongs to."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            if isinstance(call.func, ast.Attribute):
                found.setdefault(call.func.attr, []).append(call)
        return found

    @property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The imports, wherever they are, in the order of the text."""
        return sorted([*self.every(ast.Import), *self.every(ast.ImportFrom)], key=lambda one: one.lineno)

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
        return None if scope is self.module else self.places[scope].scope

    def _enter(self, module: ast.Module) -> None:
        """Visit a module, without recursion: an expression may nest deeper than Python's stack."""
        pending: list[tuple[ast.AST, StatementPlace]] = [(module, StatementPlace(module, 0))]
        while pending:
            current, place = pending.pop()
            kind = current.__class__
            self.places[current] = place
            self._nodes.setdefault(kind, []).append(current)
            if kind in _RECORDED:
                self._record(current, place)
            keeps_place = kind in _IN_ONE_PLACE
            below: list[tuple[ast.AST, StatementPlace]] = []
            for field in _holding_nodes(kind.__name__, kind._fields):
                value = getattr(current, field, None)
                for child in value if value.__class__ is list else (value,):
                    if isinstance(child, ast.AST):
                        self.parents[child] = current
                        below.append((child, place if keeps_place else self._place_of(field, child, current, place)))
            below.reverse()
            pending += below

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
                self._bind(name, None, StatementPlace(self.module, -1))  # another function may give it any value
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


@functools.cache
def _holding_nodes(kind: str, fields: tuple[str, ...]) -> tuple[str, ...]:
    """The fields of a class that may hold nodes."""
    return () if kind == "Constant" else tuple(name for name in fields if name not in _OF_NO_NODES)


def dotted_name(node: ast.AST) -> str:
    """A variable or attribute as text; empty for any other expression.

    Every reader of a script asks it of every call, so a node keeps it.
    """
    if node.__class__ is ast.Name:
        return node.id
    if node.__class__ is not ast.Attribute:
        return ""
    kept: dict[str, str] = node.__dict__
    name = kept.get("_dotted")
    if name is None:
        parts, below = [node.attr], node.value
        while isinstance(below, ast.Attribute):
            parts.append(below.attr)
            below = below.value
        name = ".".join([below.id, *reversed(parts)]) if isinstance(below, ast.Name) else ""
        kept["_dotted"] = name
    return name


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

"""Python source as an extractor reads it: with ``ast``, never by importing it.

A ``LookupError`` says that a release is not laid out as the extractor knows it: silence would claim that the library
does nothing.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Names = Mapping[str, ast.expr]  # what a local name stands for
Definition = ast.FunctionDef | ast.ClassDef

_OPPOSITES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


class Statement(NamedTuple):
    """One statement of a function, with the conditions under which it runs."""

    node: ast.stmt
    only_if: tuple[ast.expr, ...]
    names: Names

    def calls(self) -> Iterator[ast.Call]:
        """Every call that the statement makes itself."""
        return (node for node in ast.walk(self.node) if isinstance(node, ast.Call))


def parse(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    if not path.is_file():
        raise LookupError(f"there is no {path}")
    return ast.parse(path.read_text(encoding="utf-8"))


def find(tree: ast.AST, name: str) -> Definition:
    """The function or class of this name."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name:
            return node
    raise LookupError(f"there is no {name}")


def has(tree: ast.AST, name: str) -> bool:
    """Whether a function or class of this name is defined."""
    return any(isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name == name for node in ast.walk(tree))


def statements(function: Definition) -> list[Statement]:
    """The simple statements of a function in their order; a loop over constants is written out."""
    return list(_statements(function.body, (), _assigned_once(function)))


def literal(node: ast.expr | None, names: Names) -> Any:
    """The value of an expression that is a constant, also through local names; None if it is none."""
    try:
        return ast.literal_eval(_spelled(node, names)) if node is not None else None
    except ValueError:
        return None


def text(node: ast.expr, names: Names, receivers: Mapping[str, str]) -> str:
    """An expression in field terms: local names replaced by what they stand for, and receivers as told.

    ``args.learning_rate`` with the receiver ``args`` named "" is ``learning_rate``.
    """
    others = {name: value for name, value in names.items() if name not in receivers}
    return ast.unparse(_Renamed(receivers).visit(_spelled(node, others)))


def calls(node: ast.expr, names: Names) -> list[ast.Call]:
    """The calls in an expression, also those that local names stand for."""
    return [part for part in ast.walk(_spelled(node, names)) if isinstance(part, ast.Call)]


def negated(test: ast.expr) -> ast.expr:
    """The opposite of a condition, without a double negation."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return test.operand
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _OPPOSITES:
        return ast.Compare(test.left, [_OPPOSITES[type(test.ops[0])]()], test.comparators)
    return ast.UnaryOp(ast.Not(), test)


def literal_items(node: ast.expr | None) -> dict[str, ast.expr]:
    """The members of a dict display that have plain names."""
    if not isinstance(node, ast.Dict):
        return {}
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    }


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The argument that a call passes by this name."""
    return next((argument.value for argument in call.keywords if argument.arg == name), None)


def fields(cls: Definition) -> dict[str, dict[str, Any]]:
    """The public fields of a dataclass: type as text and default; ``default_is`` if the default is not a constant.

    ``bare`` is what a flag without a value stands for, if the metadata of the field have that.
    """
    return {
        node.target.id: {"type": ast.unparse(node.annotation), **default(node.value), **_bare(node.value)}
        for node in cls.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_")
    }


def refusals(function: Definition, receivers: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Every message that a function raises with, and under which conditions."""
    for statement in statements(function):
        raised = statement.node.exc if isinstance(statement.node, ast.Raise) else None
        if isinstance(raised, ast.Call) and raised.args:
            yield _message(raised.args[0], statement.names), conditions(statement, receivers)


def conditions(statement: Statement, receivers: Mapping[str, str]) -> list[str]:
    """When a statement runs, in field terms; that there is something to work on goes without saying."""
    parts = [part for test in statement.only_if for part in _conjuncts(test)]
    told = (_condition(test, statement.names, receivers) for test in parts if not _asks_for_presence(test))
    return [one for one in told if "is_auto(" not in one]  # nothing but "auto" is ever filled


def _condition(test: ast.expr, names: Names, receivers: Mapping[str, str]) -> str:
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], (ast.In, ast.NotIn)):
        key = literal(test.left, names)
        if isinstance(key, str) and ast.unparse(test.comparators[0]).endswith("config"):
            return f"{key} is {'present' if isinstance(test.ops[0], ast.In) else 'missing'}"
    return text(test, names, receivers)


def _conjuncts(test: ast.expr) -> list[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]


def _asks_for_presence(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and isinstance(test.ops[0], ast.IsNot)


def _statements(body: list[ast.stmt], only_if: tuple[ast.expr, ...], names: Names) -> Iterator[Statement]:
    for node in body:
        if isinstance(node, ast.If):
            yield from _statements(node.body, (*only_if, node.test), names)
            yield from _statements(node.orelse, (*only_if, negated(node.test)), names)
        elif isinstance(node, ast.For):
            for bound in _rounds(node, names):
                yield from _statements(node.body, only_if, bound)
        elif isinstance(node, ast.With):
            yield from _statements(node.body, only_if, names)
        elif isinstance(node, ast.Try):
            handlers = (handler.body for handler in node.handlers)
            for part in (node.body, *handlers, node.orelse, node.finalbody):
                yield from _statements(part, only_if, names)
        else:
            yield Statement(node, only_if, names)


def _rounds(loop: ast.For, names: Names) -> Iterator[Names]:
    """The names in each round of a loop over constants; one round with the names as they are for any other loop."""
    constants = literal(loop.iter, names)
    if isinstance(loop.target, ast.Name) and isinstance(constants, (list, tuple)):
        for constant in constants:
            yield {**names, loop.target.id: ast.Constant(constant)}
    else:
        yield names


def _assigned_once(function: Definition) -> Names:
    """The local names with one meaning: assigned in one place, and no part of that assignment."""
    nodes = list(ast.walk(function))
    stored = Counter(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    stored.update(node.arg for node in nodes if isinstance(node, ast.arg))
    values = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    return {name: value for name, value in values.items() if stored[name] == 1 and name not in _read(value)}


def _read(expression: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}


def _bare(value: ast.expr | None) -> dict[str, Any]:
    """``const`` in the metadata of a field, which HfArgumentParser gives to argparse."""
    metadata = keyword(value, "metadata") if isinstance(value, ast.Call) else None
    if not isinstance(metadata, ast.Dict):
        return {}
    for key, given in zip(metadata.keys, metadata.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "const":
            return {"bare": ast.literal_eval(given)}
    return {}


def default(value: ast.expr | None) -> dict[str, Any]:
    """The default of a field or parameter; ``default_is`` if it is not a constant."""
    if value is None:
        return {}
    if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in ("field", "Field"):
        factory = keyword(value, "default_factory")
        given = keyword(value, "default") or next(iter(value.args), None)  # the latter is pydantic's
        return {"default_is": ast.unparse(factory)} if factory else default(given)
    try:
        return {"default": ast.literal_eval(value)}
    except ValueError:
        return {"default_is": ast.unparse(value)}


def _message(node: ast.expr, names: Names) -> str:
    """The text of a message, with "..." for what is put in at run time."""
    node = _spelled(node, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return f"{_message(node.left, {})} {_message(node.right, {})}"
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return " ".join("".join(str(literal(part, {}) or "...") for part in parts).split())


def _spelled(node: ast.expr, names: Names) -> ast.expr:
    """An expression with what its local names stand for; the tree that it was taken from stays as it is."""
    spelled: ast.expr = _Spelled(names).visit(copy.deepcopy(node))
    return spelled


class _Spelled(ast.NodeTransformer):
    """Puts in what local names stand for."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Put in the value of one name, whose own names may stand for something too."""
        if not isinstance(node.ctx, ast.Load) or node.id not in self._names:
            return node
        others = {name: value for name, value in self._names.items() if name != node.id}
        return _spelled(self._names[node.id], others)


class _Renamed(ast.NodeTransformer):
    """Names whom an attribute belongs to, or leaves that out."""

    def __init__(self, receivers: Mapping[str, str]) -> None:
        self._receivers = receivers

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Rename the receiver of one attribute."""
        if not isinstance(node.value, ast.Name) or node.value.id not in self._receivers:
            return ast.Attribute(self.visit(node.value), node.attr, ast.Load())
        owner = self._receivers[node.value.id]
        return ast.Attribute(_name(owner), node.attr, ast.Load()) if owner else _name(node.attr)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())

"""The symbolic values of expressions, and what is recorded on the way to them.

Reading a name, folding constants and building dictionaries are here; what an attribute or an element is stands in
``sections``, what a call does in ``calls``.
"""

from __future__ import annotations

import ast
import builtins
import operator
from typing import TYPE_CHECKING, Any

from tools.extract.deepspeed import calls, sections
from tools.extract.deepspeed.values import (
    UNKNOWN,
    Arguments,
    Array,
    Class,
    Constant,
    Entries,
    External,
    Function,
    Instance,
    Table,
    UserValue,
    alternatives,
    constant,
    either,
    folded,
    user_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.extract.deepspeed.analysis import Frame
    from tools.extract.deepspeed.values import Value

LARGEST_EXPONENT = 100
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda item, container: item in container,
    ast.NotIn: lambda item, container: item not in container,
}
_SIGNS: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
    ast.Invert: operator.invert,
}
_ORDERINGS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def evaluate(frame: Frame, node: ast.expr) -> Value:  # noqa: PLR0912 - one branch for each kind of expression
    """The symbolic value of an expression."""
    match node:
        case ast.Constant(value=value):
            return Constant(value)
        case ast.Name(id=name):
            return meaning(frame, name)
        case ast.Attribute(value=owner, attr=name):
            return sections.attribute(frame.analysis, evaluate(frame, owner), name)
        case ast.Subscript(value=owner, slice=index):
            key = UNKNOWN if isinstance(index, ast.Slice) else evaluate(frame, index)
            return sections.element(frame.analysis, evaluate(frame, owner), key)
        case ast.Call():
            return _call(frame, node)
        case ast.Dict(keys=keys, values=values):
            return _dictionary(frame, keys, values)
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return Array([item for part in parts for item in _spliced(frame, part)])
        case ast.Compare():
            return _comparison(frame, node)
        case ast.BinOp(left=left, op=operation, right=right):
            return _computed(operation, evaluate(frame, left), evaluate(frame, right))
        case ast.UnaryOp(op=sign, operand=operand):
            fixed = constant(evaluate(frame, operand))
            return folded(_SIGNS[type(sign)], fixed.value) if fixed else UNKNOWN
        case ast.BoolOp(values=values):
            return either(*[evaluate(frame, value) for value in values])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            evaluate(frame, test)
            return either(evaluate(frame, body), evaluate(frame, orelse))
        case ast.NamedExpr(target=target, value=value):
            named = evaluate(frame, value)
            bind(frame, target, named)
            return named
        case ast.JoinedStr(values=values):
            return Constant("".join(_text(frame, value) for value in values))
        case ast.Lambda():
            return Function(frame.module, node, closure=frame.names)
        case ast.ListComp(elt=part) | ast.SetComp(elt=part) | ast.GeneratorExp(elt=part):
            return Array(_comprehension(frame, node.generators, lambda: evaluate(frame, part)))
        case ast.DictComp(key=key, value=entry):
            table = Table()
            _comprehension(frame, node.generators, lambda: _add_entry(frame, table, key, entry))
            return table
        case ast.Starred(value=value) | ast.Await(value=value):
            return evaluate(frame, value)
        case _:
            return UNKNOWN


def meaning(frame: Frame, name: str) -> Value:
    """What a name stands for in a frame."""
    if name in frame.names:
        return frame.names[name]
    value = frame.analysis.value_of(frame.module, name)
    if value is not None:
        return value
    return External(f"builtins.{name}") if hasattr(builtins, name) else UNKNOWN


def _spliced(frame: Frame, part: ast.expr) -> list[Value]:
    return (
        sections.iterate(frame.analysis, evaluate(frame, part.value))
        if isinstance(part, ast.Starred)
        else [evaluate(frame, part)]
    )


def _dictionary(frame: Frame, keys: list[ast.expr | None], values: list[ast.expr]) -> Table:
    table = Table()
    for key, value in zip(keys, values, strict=True):
        if key is None:
            sections.pour(frame.analysis, table, evaluate(frame, value))
        else:
            _add_entry(frame, table, key, value)
    return table


def _add_entry(frame: Frame, table: Table, key: ast.expr, value: ast.expr) -> Value:
    sections.set_item(frame.analysis, table, evaluate(frame, key), entry := evaluate(frame, value))
    return entry


def _text(frame: Frame, part: ast.expr) -> str:
    fixed = constant(evaluate(frame, part.value)) if isinstance(part, ast.FormattedValue) else None
    if isinstance(part, ast.Constant):
        return str(part.value)
    return str(fixed.value) if fixed else "..."


def _comprehension(frame: Frame, generators: list[ast.comprehension], element: Callable[[], Value]) -> list[Value]:
    before = dict(frame.names)
    first, *inner = generators
    elements = []
    for item in sections.iterate(frame.analysis, evaluate(frame, first.iter)):
        bind(frame, first.target, item)
        for test in first.ifs:
            evaluate(frame, test)
        for generator in inner:
            bind(frame, generator.target, sections.iterate(frame.analysis, evaluate(frame, generator.iter))[0])
        elements.append(element())
    frame.names = before
    return elements


def _comparison(frame: Frame, node: ast.Compare) -> Value:
    note_membership(frame, node, "tested")
    left, *rights = [evaluate(frame, part) for part in (node.left, *node.comparators)]
    for relation, right in zip(node.ops, rights, strict=True):
        if isinstance(relation, _ORDERINGS):
            _note_numbers(frame, left, right)
            _note_numbers(frame, right, left)
    if len(rights) > 1 or isinstance(node.ops[0], _ORDERINGS):
        return UNKNOWN
    first, second = constant(left), constant(rights[0])
    return folded(_OPERATORS[type(node.ops[0])], first.value, second.value) if first and second else UNKNOWN


def _note_numbers(frame: Frame, value: Value, limit: Value) -> None:
    fixed = constant(limit)
    if fixed and isinstance(fixed.value, (int, float)):
        for one in user_values(value):
            frame.analysis.records.key(one.path).used_as.add("number")


def _call(frame: Frame, node: ast.Call) -> Value:
    if isinstance(node.func, ast.Name) and node.func.id == "super":
        return _super(frame)
    callee = evaluate(frame, node.func)
    positional = [item for part in node.args for item in _spliced(frame, part)]
    named = {word.arg: evaluate(frame, word.value) for word in node.keywords if word.arg}
    spread = [evaluate(frame, word.value) for word in node.keywords if not word.arg]
    arguments = Arguments(tuple(positional), named, tuple(spread))
    if callee == UNKNOWN and any(True for value in spread for _ in user_values(value)):
        callee = External(ast.unparse(node.func))
    return calls.call(frame, callee, arguments)


def _super(frame: Frame) -> Value:
    """The same object, seen as one of its class's base."""
    instance = frame.names.get("self")
    if isinstance(instance, Instance) and frame.owner:
        for base in frame.analysis.classes.bases(frame.owner):
            if isinstance(base, Class):
                return Instance(base, instance.attributes, instance.fields)
    return UNKNOWN


def note_membership(frame: Frame, test: ast.Compare, way: str) -> None:
    """Record ``name in section`` and ``name not in section``."""
    match test:
        case ast.Compare(left=left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
            name = constant(evaluate(frame, left))
            for value in alternatives(evaluate(frame, right)):
                section = value.of if isinstance(value, Entries) else value
                if isinstance(section, UserValue) and name and isinstance(name.value, str):
                    frame.analysis.records.read((*section.path, name.value), way)


def bind(frame: Frame, target: ast.expr, value: Value) -> None:
    """Assign a value to a name, an attribute, an element, or its parts to several of them."""
    match target:
        case ast.Name(id=name):
            frame.names[name] = value
        case ast.Attribute(value=owner, attr=name):
            for one in alternatives(evaluate(frame, owner)):
                if isinstance(one, Instance):
                    sections.set_attribute(one, name, value)
        case ast.Subscript(value=owner, slice=index):
            key = evaluate(frame, index)
            for one in alternatives(evaluate(frame, owner)):
                sections.set_item(frame.analysis, one, key, value)
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            for place, part in enumerate(targets):
                bind(frame, part, _unpacked(value, place))
        case ast.Starred(value=rest):
            bind(frame, rest, UNKNOWN)


def _unpacked(value: Value, place: int) -> Value:
    unpacked = [one.items for one in alternatives(value) if isinstance(one, Array)]
    return either(*[items[place] for items in unpacked if place < len(items)])


def _computed(operation: ast.operator, left: Value, right: Value) -> Value:
    if isinstance(left, Array) and isinstance(right, Array) and isinstance(operation, ast.Add):
        return Array(left.items + right.items)
    first, second = constant(left), constant(right)
    compute = _OPERATORS.get(type(operation))
    if first is None or second is None or compute is None:
        return UNKNOWN
    if isinstance(operation, ast.Pow) and not (isinstance(second.value, int) and abs(second.value) <= LARGEST_EXPONENT):
        return UNKNOWN
    return folded(compute, first.value, second.value)

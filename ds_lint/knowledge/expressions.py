"""The expressions that the Trainer and Accelerate fill keys with, evaluated where their names are known.

They are Python, extracted from the libraries; nothing is executed. An unknown name makes the value unknown,
unless the rest decides: ``fp16 or fp16_full_eval`` is true as soon as one of them is.
"""

from __future__ import annotations

import ast
import operator
from math import ceil

from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Lookup = Callable[[str], Any]
    Evaluation = Callable[[Lookup], Any]

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "int": int, "float": float, "str": str, "len": len, "max": max, "min": min, "math.ceil": ceil,
}  # fmt: skip
_METHODS = {"get": dict, "lower": str, "startswith": str}  # and on what they are called

_REPEATING = ({str, int}, {str, bool}, {list, int}, {tuple, int})  # the types of what repeats a text or a list

_evaluations: dict[str, Evaluation] = {}


def evaluate(text: str, names: Lookup) -> Any:
    """The value of an expression, or UNKNOWN; raises what Python raises, such as TypeError.

    ``names`` answers for a name with its owner, ``DeepSpeedPlugin.zero_stage``, and for a call that it knows as a
    whole, ``is_zero3()``; with UNKNOWN for all others.
    """
    if text not in _evaluations:  # of a few hundred, each for every config, launch and release
        _evaluations[text] = evaluation_of(ast.parse(text, mode="eval").body)
    return _evaluations[text](names)


def names_in(text: str) -> list[str]:
    """The names without an owner in an expression, in its order: the training arguments that it reads."""
    found = (node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name))
    return list(dict.fromkeys(found))


def evaluation_of(node: ast.expr) -> Evaluation:
    """What evaluates an expression that is already parsed; see ``evaluate``."""
    if isinstance(node, ast.Constant):
        constant = node.value
        return lambda _: constant
    if isinstance(node, (ast.Name, ast.Attribute)):
        text = ast.unparse(node)
        return lambda names: names(text)
    if isinstance(node, (ast.List, ast.Tuple)):
        items = _of_each(node.elts)
        return lambda names: UNKNOWN if UNKNOWN in (found := items(names)) else found
    if isinstance(node, ast.Dict):
        pairs = [
            (evaluation_of(key), evaluation_of(value))
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        ]
        return lambda names: {key(names): value(names) for key, value in pairs}
    if isinstance(node, ast.BoolOp):
        return _joined(node)
    if isinstance(node, ast.IfExp):
        test, body, otherwise = map(evaluation_of, (node.test, node.body, node.orelse))
        return lambda names: (
            UNKNOWN if (holds := test(names)) is UNKNOWN else body(names) if holds else otherwise(names)
        )
    return _called(node) if isinstance(node, ast.Call) else _operated(node)


def _of_each(nodes: list[ast.expr]) -> Callable[[Lookup], list[Any]]:
    evaluations = [evaluation_of(node) for node in nodes]
    return lambda names: [one(names) for one in evaluations]


def _operated(node: ast.expr) -> Evaluation:
    """Operators on values, none of which may be unknown."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        operand = evaluation_of(node.operand)
        return lambda names: UNKNOWN if (value := operand(names)) is UNKNOWN else not value
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        function, operands = _ARITHMETIC[type(node.op)], [node.left, node.right]
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        function, operands = _COMPARISONS[type(node.ops[0])], [node.left, node.comparators[0]]
    elif isinstance(node, ast.Subscript):
        function, operands = operator.getitem, [node.value, node.slice]
    else:
        return lambda _: UNKNOWN
    values = _of_each(operands)

    def operate(names: Lookup) -> Any:
        left, right = values(names)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        if function is operator.mul and {type(left), type(right)} in _REPEATING:
            return UNKNOWN  # which may fill the memory
        return function(left, right)

    return operate


def _joined(node: ast.BoolOp) -> Evaluation:
    """``and`` and ``or``: the first operand that decides, or the last; one that decides outweighs an unknown one."""
    decides, operands = isinstance(node.op, ast.Or), _of_each(node.values)

    def join(names: Lookup) -> Any:
        values = operands(names)
        if UNKNOWN in values:
            return decides if any(value is decides for value in values) else UNKNOWN
        return next((value for value in values[:-1] if bool(value) == decides), values[-1])

    return join


def _called(node: ast.Call) -> Evaluation:
    text, is_by_name, function = ast.unparse(node), bool(node.keywords), _FUNCTIONS.get(ast.unparse(node.func))
    arguments = _of_each(node.args)
    method = node.func.attr if isinstance(node.func, ast.Attribute) and node.func.attr in _METHODS else None
    owner = evaluation_of(node.func.value) if isinstance(node.func, ast.Attribute) else None

    def call(names: Lookup) -> Any:
        whole = names(text)
        if whole is not UNKNOWN or is_by_name:
            return whole
        given = arguments(names)
        if UNKNOWN in given:
            return UNKNOWN
        if function is not None:
            return function(*given)
        if owner is None or method is None:
            return UNKNOWN
        if (of := owner(names)) is UNKNOWN:
            return UNKNOWN
        if not isinstance(of, _METHODS[method]):
            raise AttributeError(f"'{type(of).__name__}' object has no attribute '{method}'")  # noqa: TRY004 - as Python
        return getattr(of, method)(*given)

    return call

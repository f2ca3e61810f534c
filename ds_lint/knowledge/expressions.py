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
_METHODS = {"get": dict, "lower": str}  # and on what they are called

_REPEATING = ({str, int}, {str, bool}, {list, int}, {tuple, int})  # the types of what repeats a text or a list

_parsed: dict[str, ast.expr] = {}


def evaluate(text: str, names: Lookup) -> Any:
    """The value of an expression, or UNKNOWN; raises what Python raises, such as TypeError.

    ``names`` answers for a name with its owner, ``DeepSpeedPlugin.zero_stage``, and for a call that it knows as a
    whole, ``is_zero3()``; with UNKNOWN for all others.
    """
    if text not in _parsed:
        _parsed[text] = ast.parse(text, mode="eval").body
    return _value(_parsed[text], names)


def names_in(text: str) -> list[str]:
    """The names without an owner in an expression, in its order: the training arguments that it reads."""
    found = (node.id for node in ast.walk(ast.parse(text, mode="eval")) if isinstance(node, ast.Name))
    return list(dict.fromkeys(found))


def _value(node: ast.expr, names: Lookup) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, (ast.Name, ast.Attribute)):
        return names(ast.unparse(node))
    if isinstance(node, (ast.List, ast.Tuple)):
        items = [_value(item, names) for item in node.elts]
        return UNKNOWN if UNKNOWN in items else items
    if isinstance(node, ast.Dict):
        return {
            _value(key, names): _value(value, names)
            for key, value in zip(node.keys, node.values, strict=True)
            if key is not None
        }
    if isinstance(node, ast.BoolOp):
        return _joined(node, names)
    if isinstance(node, ast.IfExp):
        test = _value(node.test, names)
        return UNKNOWN if test is UNKNOWN else _value(node.body if test else node.orelse, names)
    if isinstance(node, ast.Call):
        return _called(node, names)
    return _operated(node, names)


def _operated(node: ast.expr, names: Lookup) -> Any:
    """Operators on values, none of which may be unknown."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        operand = _value(node.operand, names)
        return UNKNOWN if operand is UNKNOWN else not operand
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        function, operands = _ARITHMETIC[type(node.op)], (node.left, node.right)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        function, operands = _COMPARISONS[type(node.ops[0])], (node.left, node.comparators[0])
    elif isinstance(node, ast.Subscript):
        function, operands = operator.getitem, (node.value, node.slice)
    else:
        return UNKNOWN
    left, right = (_value(operand, names) for operand in operands)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if function is operator.mul and {type(left), type(right)} in _REPEATING:
        return UNKNOWN  # which may fill the memory
    return function(left, right)


def _joined(node: ast.BoolOp, names: Lookup) -> Any:
    """``and`` and ``or``: the first operand that decides, or the last; one that decides outweighs an unknown one."""
    decides = isinstance(node.op, ast.Or)
    values = [_value(value, names) for value in node.values]
    if UNKNOWN in values:
        return decides if any(value is decides for value in values) else UNKNOWN
    return next((value for value in values[:-1] if bool(value) == decides), values[-1])


def _called(node: ast.Call, names: Lookup) -> Any:
    whole = names(ast.unparse(node))
    if whole is not UNKNOWN or node.keywords:
        return whole
    arguments = [_value(argument, names) for argument in node.args]
    if UNKNOWN in arguments:
        return UNKNOWN
    if (function := _FUNCTIONS.get(ast.unparse(node.func))) is not None:
        return function(*arguments)
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _METHODS:
        return UNKNOWN
    owner = _value(node.func.value, names)
    if owner is UNKNOWN:
        return UNKNOWN
    if not isinstance(owner, _METHODS[node.func.attr]):
        raise AttributeError(f"'{type(owner).__name__}' object has no attribute '{node.func.attr}'")  # noqa: TRY004 - as Python
    return getattr(owner, node.func.attr)(*arguments)

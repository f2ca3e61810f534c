"""Whether values are true, equal, the same, or in each other."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes, methods
from ds_lint.source.evaluation.operations import COMPARISONS, computed, lowered
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Dict,
    Known,
    LibraryName,
    List,
    Method,
    ModuleFunction,
    NotKnown,
    Object,
    Slot,
    Super,
    Undecided,
    View,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Value


def comparison(run: Evaluator, node: ast.Compare) -> Value:
    """The value of ``a < b <= c``."""
    left = run.evaluate(node.left)
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = run.evaluate(right_node)
        answer = _compare(run, operator, left, right)
        if answer is None:
            run.risk()
            return Undecided(node)
        if not answer:
            return Known(False, node)
        left = right
    return Known(True, node)


def _compare(run: Evaluator, operator: ast.cmpop, one: Value, other: Value) -> bool | None:
    if isinstance(operator, (ast.Is, ast.IsNot)):
        answer = _is(one, other)
        return answer if answer is None or isinstance(operator, ast.Is) else not answer
    if isinstance(operator, (ast.In, ast.NotIn)):
        answer = _contains(run, other, one)
        return answer if answer is None or isinstance(operator, ast.In) else not answer
    if isinstance(operator, (ast.Eq, ast.NotEq)):
        answer = run.equal(one, other)
        return answer if answer is None or isinstance(operator, ast.Eq) else not answer
    try:
        left, right = lowered(one), lowered(other)
    except NotKnown:
        return None
    result = computed(lambda: COMPARISONS[type(operator)](left, right))
    return bool(result)


def equal(run: Evaluator, one: Value, other: Value) -> bool | None:
    """Whether two values are equal; None if that does not show."""
    try:
        return _equal(run, one, other)
    except NotKnown:
        return None


def _equal(run: Evaluator, one: Value, other: Value) -> bool | None:
    has_member = is_member(one) or is_member(other)
    if (isinstance(one, Object) or isinstance(other, Object)) and not has_member:
        return _same_object(run, one, other)
    if isinstance(one, (Class, ModuleFunction)) or isinstance(other, (Class, ModuleFunction)):
        return True if one is other else False if type(one) is type(other) else None
    if isinstance(one, LibraryName) and isinstance(other, LibraryName):
        is_builtin = one.name.startswith("builtins.") and other.name.startswith("builtins.")
        return one.name == other.name if is_builtin or one.name == other.name else None
    left, right = lowered(one), lowered(other)
    return bool(computed(lambda: left == right))


def _same_object(run: Evaluator, one: Value, other: Value) -> bool | None:
    if isinstance(one, Object) and isinstance(other, Object) and one.attributes is other.attributes:
        return True
    for value in (one, other):
        if isinstance(value, Undecided):
            return None
        if isinstance(value, Object) and (
            value.cls.kind not in ("", "enum") or not value.cls.is_plain or classes.find(value.cls, "__eq__")
        ):
            return None
    return False


def _contains(run: Evaluator, container: Value, key: Value) -> bool | None:
    try:
        if isinstance(container, View) and container.what == "keys":
            container = container.cell
        if isinstance(container, Dict):
            return methods.entry(container, methods.key_of(key)) is not None
        if isinstance(container, List) and container.kind != "set":
            slots = run.items(container)
            if slots is None:
                return None
            answers = [None if slot.may_be_missing else run.equal(slot.value, key) for slot in slots]
            return True if True in answers else None if None in answers else False
        if isinstance(container, Object):
            method = run.attribute(container, "__contains__", None)
            return run.truth(run.call(method, Arguments([Slot(key, None)], {}), None))
        known, wanted = lowered(container), lowered(key)
    except NotKnown:
        return None
    return bool(computed(lambda: wanted in known))


def truth(run: Evaluator, value: Value) -> bool | None:
    """Whether a value is true; None if that does not show."""
    try:
        truth = _truth_of(value)
    except NotKnown:
        truth = None
    if truth is None:
        run.risk()
    return truth


def _truth_of(value: Value) -> bool | None:
    if isinstance(value, Known):
        return bool(value.value)
    if isinstance(value, Object):
        if is_member(value):
            return None
        plain = value.cls.is_plain and value.cls.kind in ("", "dataclass", "enum", "namespace")
        if plain and not classes.find(value.cls, "__bool__") and not classes.find(value.cls, "__len__"):
            return True
        return None
    if isinstance(value, (ModuleFunction, Class, Bound, Method)):
        return True
    if isinstance(value, LibraryName):
        return True if value.name.startswith("builtins.") else None
    if isinstance(value, List) and value.kind == "iterator":
        return True
    cell = value.cell if isinstance(value, View) else value
    if isinstance(cell, Dict) and not cell.is_lost:
        if any(not slot.may_be_missing for slot in cell.content.entries.values()):
            return True
        return None if cell.content.is_open or cell.content.entries else False
    if isinstance(cell, List) and not cell.is_lost:
        return None if cell.content is None else bool(cell.content)
    return None


def is_member(value: Value) -> bool:
    """Whether a value is a member of an enumeration of numbers or texts."""
    return isinstance(value, Object) and value.cls.kind == "number"


def _is(one: Value, other: Value) -> bool | None:
    if isinstance(one, Undecided) or isinstance(other, Undecided):
        return None
    if isinstance(one, Known) and isinstance(other, Known):
        singletons = (None, True, False, Ellipsis)
        if any(one.value is each for each in singletons) or any(other.value is each for each in singletons):
            return one.value is other.value
        return None
    if isinstance(one, LibraryName) or isinstance(other, LibraryName):
        if one == other:
            return True
        both = isinstance(one, LibraryName) and isinstance(other, LibraryName)
        builtin = both and all(v.name.startswith("builtins.") for v in (one, other))  # type: ignore[union-attr]
        return False if builtin else None
    if isinstance(one, Object) and isinstance(other, Object):
        return one.attributes is other.attributes
    if isinstance(one, (Bound, Method, View, Super)) or isinstance(other, (Bound, Method, View, Super)):
        return None
    return one is other

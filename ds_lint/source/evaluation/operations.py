"""Operators, comparisons and conversions of values that are known; bounded, as a result may be as large as it likes."""

from __future__ import annotations

import ast
import operator
from pathlib import PurePath, PurePosixPath
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation.values import (
    Dict,
    Known,
    List,
    ModuleError,
    NotKnown,
    Object,
    Slot,
    Undecided,
    View,
)
from ds_lint.source.limits import MOST_BITS

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.state import Heap
    from ds_lint.source.evaluation.values import Place, Value

_LONGEST = 50_000  # characters and items of a result
_MOST_LOWERED = 5_000  # values in one
_LARGEST_EXPONENT = 512
_LARGEST_WIDTH = 1_000
_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitOr: operator.or_,
    ast.BitAnd: operator.and_, ast.BitXor: operator.xor, ast.LShift: operator.lshift, ast.RShift: operator.rshift,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Invert: operator.invert,
}  # fmt: skip
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}  # fmt: skip


def lowered(value: Value) -> Any:
    """The Python object that a value is; raises NotKnown if a part of it does not show."""
    return _Lowering().value(value, 0)


class _Lowering:
    def __init__(self) -> None:
        self._left = _MOST_LOWERED

    def value(self, value: Value, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > 40:
            raise NotKnown
        if isinstance(value, Known):
            return value.value
        if isinstance(value, Object) and value.cls.kind == "number":  # a member of an IntEnum or StrEnum
            return self.value(value.attributes.content.entries["_value_"].value, depth + 1)
        if isinstance(value, View):
            pairs = [(key, self.slot(slot, depth)) for key, slot in _entries(value.cell).items()]
            return {"items": pairs, "keys": [key for key, _ in pairs], "values": [one for _, one in pairs]}[value.what]
        if isinstance(value, Dict):
            return {key: self.slot(slot, depth) for key, slot in _entries(value).items()}
        if isinstance(value, List) and value.content is not None and not value.is_lost and value.kind != "iterator":
            items = [self.slot(slot, depth) for slot in value.content]
            try:
                return tuple(items) if value.kind == "tuple" else set(items) if value.kind == "set" else items
            except TypeError:
                raise NotKnown from None
        raise NotKnown

    def slot(self, slot: Slot, depth: int) -> Any:
        if slot.may_be_missing:
            raise NotKnown
        return self.value(slot.value, depth + 1)


def _entries(cell: Dict) -> dict[Any, Slot]:
    if cell.is_lost or cell.content.is_open or cell.factory is not None:
        raise NotKnown
    return cell.content.entries


def lifted(value: Any, place: Place, state: Heap) -> Value:
    """A Python object as a value, all of it at one place, which writes more than one."""
    if isinstance(value, dict):
        entries = {key: Slot(lifted(one, place, state), place, place, is_fixed=True) for key, one in value.items()}
        return state.new_dict(place, entries)
    for kind, name in ((list, "list"), (tuple, "tuple"), (set, "set"), (frozenset, "set")):
        if isinstance(value, kind):
            ordered = value if name != "set" else sorted(value, key=repr)
            return state.new_list(
                place, [Slot(lifted(one, place, state), place, is_fixed=True) for one in ordered], name
            )
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        return Undecided(place)
    if value is None or value is Ellipsis or isinstance(value, _SCALARS):
        return Known(value, place)
    return Undecided(place)


_SCALARS = (bool, int, float, str, bytes, complex, range, slice, PurePath)


def computed(call: Callable[[], Any]) -> Any:
    """The result of a built-in operation; raises ModuleError with what it raises."""
    try:
        result = call()
    except RecursionError:
        raise NotKnown from None
    except _ERRORS as error:
        raise ModuleError(type(error)) from None
    if isinstance(result, (str, bytes, list, tuple, dict)) and len(result) > _LONGEST:
        raise NotKnown
    return result


def binary(kind: type[ast.operator], one: Any, other: Any) -> Any:
    """The result of an operator; raises NotKnown where it is too large to be worth computing."""
    function = BINARY.get(kind)
    if function is None:
        raise NotKnown
    if isinstance(one, (set, frozenset)) or isinstance(other, (set, frozenset)):
        pass
    elif kind is ast.Mult:
        for text, times in ((one, other), (other, one)):
            if isinstance(text, (str, bytes, list, tuple)) and (
                not isinstance(times, int) or len(text) * times > _LONGEST
            ):
                raise NotKnown
    elif kind is ast.Pow:
        if not _is_small(one, other):
            raise NotKnown
    elif kind in (ast.LShift, ast.RShift):
        if isinstance(other, int) and not 0 <= other <= 4 * _LARGEST_EXPONENT:
            raise NotKnown
    elif kind is ast.Mod and isinstance(one, (str, bytes)):
        return computed(lambda: formatted(str(one), other)) if isinstance(one, str) else _no()
    return computed(lambda: function(one, other))


def _no() -> Any:
    raise NotKnown


def _is_small(base: Any, exponent: Any) -> bool:
    """Whether a power is worth computing."""
    if isinstance(base, float) or isinstance(exponent, float):
        return True
    is_int = isinstance(base, int) and isinstance(exponent, int)
    return is_int and abs(exponent) <= _LARGEST_EXPONENT and base.bit_length() * max(abs(exponent), 1) <= MOST_BITS


def formatted(text: str, values: Any) -> str:
    """``text % values``."""
    if "*" in text or _has_wide_numbers(text):
        raise NotKnown
    result: str = text % values
    return result


def _has_wide_numbers(text: str) -> bool:
    """Whether a format may ask for a huge width."""
    digits = 0
    for character in text:
        digits = digits + 1 if character.isdecimal() else 0
        if digits > 3:
            return True
    return False


def format_value(value: Any, conversion: int, specification: str) -> str:
    """What a replacement field of an f-string becomes."""
    if _has_wide_numbers(specification):
        raise NotKnown
    if conversion in (ord("r"), ord("a")):
        value = repr(value) if conversion == ord("r") else ascii(value)
    elif conversion == ord("s"):
        value = str(value)
    return format(value, specification)


def is_wide(arguments: list[Any]) -> bool:
    """Whether a method of a text may make a huge one, such as ``"x".ljust(10**9)``."""
    return any(isinstance(one, int) and not isinstance(one, bool) and abs(one) > _LARGEST_WIDTH for one in arguments)


def path(*parts: Any) -> PurePath:
    """The path that its parts make."""
    return PurePosixPath(*parts)

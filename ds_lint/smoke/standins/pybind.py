"""What the functions of a compiled op take and refuse: the conversions of pybind11 (pybind11/cast.h), in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = (str, bytes, bytearray)
REFUSALS = (AttributeError, OverflowError, RuntimeError, TypeError, ValueError)  # RuntimeError: of a tensor


def function(name: str, kinds: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    """`compute` behind the arguments that a pybind11 function of these kinds takes, all positional and required."""
    conversions = [CONVERSIONS[kind] for kind in kinds.split()]

    def convert(*arguments: Any) -> Any:
        try:
            converted = [conversion(value) for conversion, value in zip(conversions, arguments, strict=True)]
        except REFUSALS:
            expected = ", ".join(kinds.split())
            raise TypeError(f"{name}(): incompatible function arguments. Expected ({expected})") from None
        return compute(*converted)

    return convert


def _float(value: Any) -> torch.Tensor:
    """A float of C as a tensor without dimensions: like C, it divides by zero and knows no overflow error."""
    if isinstance(value, TEXTS):  # float() would parse them; pybind11 asks PyNumber_Check first
        raise TypeError
    return torch.tensor(float(value), dtype=torch.float32)


def _integer(low: int, high: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, (float, *TEXTS)):
            raise TypeError
        number = int(value)
        if not low <= number <= high:
            raise OverflowError
        return number

    return convert


def _bool(value: Any) -> bool:
    # None is false, and everything with __bool__ is what that says; strings and lists have only a length.
    return value is not None and bool(type(value).__bool__(value))


def _tensor(value: Any) -> torch.Tensor:
    """The memory of a tensor: a kernel writes there, and autograd does not hear of it."""
    if not isinstance(value, torch.Tensor):
        raise TypeError
    return value.data


def _tensors(rows: Any) -> list[list[torch.Tensor]]:
    return [[_tensor(value) for value in row] for row in rows]


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "float": _float,
    "int": _integer(-(2**31), 2**31 - 1),
    "size": _integer(0, 2**64 - 1),
    "bool": _bool,
    "tensor": _tensor,
    "tensors": _tensors,
}

"""The tensors of a pickle that torch has written: dtype, shape, and the storage that holds the elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.checkpoints.pickled import Call, Global, Persistent

if TYPE_CHECKING:
    from collections.abc import Iterator

# Storage classes of torch, by the names of dtypes and the bytes of an element (torch/storage.py).
_DTYPES = {
    "FloatStorage": ("float32", 4), "DoubleStorage": ("float64", 8), "HalfStorage": ("float16", 2),
    "BFloat16Storage": ("bfloat16", 2), "LongStorage": ("int64", 8), "IntStorage": ("int32", 4),
    "ShortStorage": ("int16", 2), "CharStorage": ("int8", 1), "ByteStorage": ("uint8", 1),
    "BoolStorage": ("bool", 1), "UntypedStorage": ("uint8", 1), "ComplexFloatStorage": ("complex64", 8),
    "ComplexDoubleStorage": ("complex128", 16),
}  # fmt: skip
# Functions of torch._utils that make a tensor of a storage, offset, shape and strides; others wrap one of these.
_REBUILDS = ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
_DEEPEST = 8  # of functions around a tensor: a parameter of a subclass with state takes three
_MOST_DIMENSIONS, _LARGEST = 64, 1 << 48  # of what torch makes; a pickle may claim any number


class Storage(NamedTuple):
    """What holds the elements of tensors: a file in the archive."""

    key: str
    dtype: str
    elements: int
    element_size: int  # bytes


class SavedTensor(NamedTuple):
    """A tensor: the path to it in the pickle, and what the pickle says of it."""

    path: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    source: Persistent | None = None  # the storage
    offset: int = 0  # elements before it in the storage

    @property
    def elements(self) -> int:
        """The number of elements."""
        return product(self.shape)


def product(shape: tuple[int, ...]) -> int:
    """The number of elements of a shape."""
    elements = 1
    for size in shape:
        elements *= size
    return elements


def storage_of(value: Any) -> Storage | None:
    """The storage that a persistent identifier names: ("storage", type, key, device, number of elements, ...)."""
    identifier = value.identifier if isinstance(value, Persistent) else None
    if not (isinstance(identifier, tuple) and len(identifier) >= 5 and identifier[0] == "storage"):
        return None
    kind, key, elements = identifier[1], identifier[2], identifier[4]
    if not (isinstance(kind, Global) and isinstance(key, str) and _is_size(elements)):
        return None
    dtype, size = _DTYPES.get(kind.name, (kind.name, 0))
    return Storage(key, dtype, elements, size)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """A shape, as a tuple or as ``torch.Size``."""
    if isinstance(value, Call) and value.function == Global("torch", "Size") and isinstance(value.arguments, tuple):
        value = value.arguments[0] if len(value.arguments) == 1 else None
    if not isinstance(value, (tuple, list)) or len(value) > _MOST_DIMENSIONS:
        return None
    return tuple(value) if all(map(_is_size, value)) else None


def tensor_of(value: Any, path: tuple[str, ...] = ()) -> SavedTensor | None:
    """The tensor that a call makes; None if it makes something else."""
    for _ in range(_DEEPEST):
        if not isinstance(value, Call):
            return None
        function, arguments = value.function, value.arguments
        if not (isinstance(function, Global) and isinstance(arguments, tuple) and arguments):
            return None
        if function.name in _REBUILDS:
            return _tensor(path, function.name, arguments)
        if not function.module.startswith("torch"):
            return None
        is_of_type = function.name == "_rebuild_from_type_v2" and len(arguments) > 2
        value = Call(arguments[0], arguments[2]) if is_of_type else arguments[0]
    return None


def tensors_of(value: Any) -> Iterator[SavedTensor]:
    """Every tensor below a value, each object visited once."""
    seen: set[int] = set()
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while waiting:
        path, one = waiting.pop()
        if isinstance(one, (str, bytes, int, float)) or one is None or id(one) in seen or len(path) > _MOST_DIMENSIONS:
            continue
        seen.add(id(one))
        tensor = tensor_of(one, path)
        if tensor is not None:
            yield tensor
            continue
        waiting.extend(((*path, name), below) for name, below in reversed(_below(one)))


def storages_of(value: Any) -> Iterator[Storage]:
    """Every storage below a value."""
    seen: set[int] = set()
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, (str, bytes, int, float)) or one is None or id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, Persistent):
            if (storage := storage_of(one)) is not None:
                yield storage
            continue
        waiting.extend(below for _, below in _below(one))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and 0 <= value < _LARGEST


def _tensor(path: tuple[str, ...], function: str, arguments: tuple[Any, ...]) -> SavedTensor | None:
    storage = storage_of(arguments[0])
    shape = shape_of(arguments[2]) if len(arguments) > 2 else None
    if storage is None or shape is None:
        return None
    dtype, offset = storage.dtype, arguments[1]
    if function == "_rebuild_tensor_v3" and len(arguments) > 6 and isinstance(arguments[6], Global):
        dtype = arguments[6].name
    return SavedTensor(path, dtype, shape, arguments[0], offset if _is_size(offset) else 0)


def _below(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [(_name(key), one) for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [(str(place), one) for place, one in enumerate(value)]
    if isinstance(value, Call):
        return [("", value.arguments), ("", value.state), ("", value.items)]
    return []


def _name(key: Any) -> str:
    return key if isinstance(key, str) else str(key) if isinstance(key, int) and abs(key) < _LARGEST else "?"

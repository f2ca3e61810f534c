"""The header of a safetensors file: which tensors it holds, without their values.

Eight bytes with the length of the header, then the header as JSON: https://huggingface.co/docs/safetensors/index#format
"""

from __future__ import annotations

import os
from math import prod

from ds_lint.facts.unreadable import UnreadableFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_LONGEST_HEADER = 100_000_000  # the format's own limit
_LFS_POINTER = b"version https://git-lfs"


class NotFetched(Exception):  # noqa: N818 - nothing is wrong with the model
    """A file whose content does not lie on this machine."""


class Parameter:
    """One tensor of a checkpoint; ``dtype`` as safetensors names it, such as ``BF16``."""

    __slots__ = ("dtype", "name", "shape")

    def __init__(self, name: str, shape: tuple[int, ...], dtype: str) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


def headers(path: str) -> Iterator[Parameter]:
    """The tensors of one file; raises NotFetched where the file is not here, UnreadableFact where it is broken."""
    for name, tensor in _header(path).items():
        if name == "__metadata__":
            continue
        shape = tensor.get("shape") if isinstance(tensor, dict) else None
        if not isinstance(shape, list) or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise UnreadableFact(f"{path} is not a safetensors file: {name} has no shape")
        yield Parameter(name, tuple(shape), str(tensor.get("dtype")))


def _header(path: str) -> dict[str, Any]:
    import json  # few models are read from their files

    try:
        with open(path, "rb") as file:
            start = file.read(len(_LFS_POINTER))
            if start == _LFS_POINTER:
                raise NotFetched(path)
            length = int.from_bytes(start[:8], "little")
            is_whole = len(start) >= 8 and length <= min(_LONGEST_HEADER, os.path.getsize(path) - 8)
            file.seek(8)
            header = json.loads(file.read(length)) if is_whole else None
    except FileNotFoundError:
        raise NotFetched(path) from None
    except OSError as error:
        raise UnreadableFact(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UnreadableFact(f"{path} is not a safetensors file: its header is not JSON ({error})") from None
    if not is_whole:
        raise UnreadableFact(f"{path} is not a safetensors file, or only a part of one")
    if not isinstance(header, dict):
        raise UnreadableFact(f"{path} is not a safetensors file: its header is not a JSON object")
    return header  # of a file that may be broken: whoever takes a tensor from it looks first

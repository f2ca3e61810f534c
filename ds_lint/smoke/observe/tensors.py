"""The tensors that a call gets or returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """The tensors among the arguments of a call; nothing is consumed that can be iterated only once."""
    if torch.is_tensor(values):
        yield values
    elif isinstance(values, Mapping):
        for one in values.values():
            yield from tensors_in(one)
    elif isinstance(values, (list, tuple)):
        for one in values:
            yield from tensors_in(one)

"""What the optimizer of a rank holds of a model that FSDP shards: gradients, states, and what it updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.observe.fsdp_shards import dtype_name, handles, local

if TYPE_CHECKING:
    from collections.abc import Iterable


class TensorKind:
    """The tensors of one kind: their elements, the bytes of their storages, each once, and their dtypes."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        found = [local(one) for one in tensors if one is not None]
        self.elements = sum(one.numel() for one in found)
        storages = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in found if one.numel()}
        self.held = Held(self.elements, sum(storages.values()))
        self.dtypes = sorted({dtype_name(one.dtype) for one in found})
        self.devices = sorted({one.device.type for one in found})


def gradients(optimizer: Any) -> TensorKind:
    """The gradients that the optimizer is about to step with."""
    return TensorKind(one.grad for group in optimizer.param_groups for one in group["params"])


def states(optimizer: Any) -> dict[str, TensorKind]:
    """The states by name, such as ``exp_avg``, without those that are a number."""
    found: dict[str, list[Any]] = {}
    for state in optimizer.state.values():
        for name, value in state.items():
            if torch.is_tensor(value) and value.dim():
                found.setdefault(name, []).append(value)
    return {name: TensorKind(tensors) for name, tensors in sorted(found.items())}


def foreign(optimizer: Any, model: Any) -> int:
    """The elements that the optimizer updates and that belong to no parameter of the model, such as those of before."""
    own = {id(one) for one in model.parameters()} | {id(handle.flat_param) for _, handle in handles(model)}
    return sum(one.numel() for group in optimizer.param_groups for one in group["params"] if id(one) not in own)


def squared_norm(optimizer: Any) -> float:
    """The squared norm of the gradients of this rank."""
    found = (one.grad for group in optimizer.param_groups for one in group["params"] if one.grad is not None)
    return sum(float(local(one).double().square().sum()) for one in found)

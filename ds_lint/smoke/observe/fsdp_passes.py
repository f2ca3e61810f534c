"""What the passes of a model that FSDP shards do on this rank: dtypes, gathered weights, and which layers run again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import fsdp_shards
from ds_lint.smoke.observe.fsdp_shards import dtype_name, unit_parameters
from ds_lint.smoke.observe.fsdp_step import flat_offsets
from ds_lint.smoke.observe.layers import Layers
from ds_lint.smoke.records.fsdp import plain_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.records.fsdp_trace import FsdpTrace

_WRAPPER = "_checkpoint_wrapped_module"  # of torch/distributed/algorithms/_checkpoint/checkpoint_wrapper.py
_SETTING = "gradient_checkpointing"  # of modules of transformers


class FirstPasses:
    """Watches the first forward pass that trains, and the backward pass after it."""

    def __init__(self, model: Any, trace: FsdpTrace) -> None:
        self._model = model
        self._trace = trace
        self._layers = Layers()
        self._handles: list[Any] = []
        self._is_backward = False

    def begin(self) -> None:
        """A forward pass is about to be made."""
        trace, model = self._trace, self._model
        self._layers.begin(model)
        for name, module in model.named_modules():
            if isinstance(module, torch.nn.Linear):
                self._handles.append(module.register_forward_pre_hook(self._note_dtype))
            inner = getattr(module, _WRAPPER, None)
            if inner is not None:
                trace.checkpointed.append(plain_name(name))
                self._handles.append(inner.register_forward_pre_hook(self._noting(plain_name(name))))
            is_set = getattr(module, _SETTING, False) is True and module.training
            if is_set and not trace.recomputation:
                trace.recomputation = f"`{_SETTING}` of {type(module).__name__}"
        trace.autocasts = torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda")

    def turn(self) -> None:
        """The forward pass is made."""
        floating = (one for one in self._model.buffers() if one.is_floating_point())
        self._trace.buffer_dtypes = sorted({dtype_name(one.dtype) for one in floating})
        self._is_backward = True
        self._layers.turn()

    def end(self) -> None:
        """The backward pass is made, too."""
        self._layers.end()
        for handle in self._handles:
            handle.remove()
        trace = self._trace
        trace.layers = list(self._layers.names)
        trace.layers_again = sorted(self._layers.recomputed)

    def _note_dtype(self, module: Any, _inputs: Any) -> None:
        name = dtype_name(module.weight.dtype)
        if name not in self._trace.compute_dtypes:
            self._trace.compute_dtypes.append(name)

    def _noting(self, name: str) -> Callable[[Any, Any], None]:
        def note(_module: Any, _inputs: Any) -> None:
            found = self._trace.recomputed if self._is_backward else self._trace.ran
            if name not in found:
                found.append(name)

        return note


def watch_units(model: Any, saw: Callable[[str, torch.Tensor], None], is_wanted: Callable[[], bool]) -> None:
    """Show each parameter as units have gathered it for their forward pass."""

    def of_rows(group: Any) -> Callable[[Any, Any], None]:
        def show(_module: Any, _inputs: Any) -> None:
            for one, name in parameters if is_wanted() else ():
                whole = getattr(one, "_unsharded_param", None)
                if whole is not None and whole.untyped_storage().nbytes():
                    saw(name, whole.detach())

        parameters = [
            (one, name) for one, name in unit_parameters(model) if any(one is own for own in group.fsdp_params)
        ]
        return show

    def of_flat(prefix: str, handle: Any) -> Callable[[Any, Any], None]:
        def show(_module: Any, _inputs: Any) -> None:
            if not is_wanted():
                return
            flat = handle.flat_param
            whole = flat.detach()
            for name, size, offset in zip(flat._fqns, flat._numels, flat_offsets(flat), strict=True):  # noqa: SLF001
                if offset + size <= whole.numel():
                    saw(f"{prefix}{plain_name(name)}", whole[offset : offset + size])

        return show

    for _, group in fsdp_shards.param_groups(model):
        for module in group.modules:
            module.register_forward_pre_hook(of_rows(group))
    for name, handle in fsdp_shards.handles(model):
        unit = next(one for one in model.modules() if getattr(one, "_handle", None) is handle)
        unit.module.register_forward_pre_hook(of_flat(f"{name}." if name else "", handle))


def gathered(model: Any) -> int:
    """The elements that units keep whole between steps, beside their shards."""
    whole = 0
    for one, _ in unit_parameters(model):
        own = getattr(one, "_unsharded_param", None)
        is_divided = one.sharded_param.to_local().numel() < one.sharded_param.numel()
        if own is not None and is_divided:
            whole += fsdp_shards.stored_elements(own)
    for _, handle in fsdp_shards.handles(model):
        padded = getattr(handle.flat_param, "_full_param_padded", None)
        if padded is not None and handle.uses_sharded_strategy:
            whole += fsdp_shards.stored_elements(padded)
    return whole

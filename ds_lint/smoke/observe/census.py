"""Every live storage of a rank, each counted once, and what it belongs to.

The tensors are those that Python's garbage collector knows, not those that the engine lists: an attribute of any
object, a closure, a hook. What a tensor belongs to is read from the model, the optimizer and its named buffers;
``ds_status`` and the sizes that the engine reports are not used. Storages that only C++ holds, without a tensor in
Python, are not seen.
"""

from __future__ import annotations

import gc
import time
import types
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.observe import probes
from ds_lint.smoke.records.job import UnknownStorage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Buffers that an optimizer of ZeRO names, by what they are for: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py.
_BUFFERS = {
    "reduce buckets": (
        "ipg_buckets",
        "ipg_buffer",
        "_DeepSpeedZeroOptimizer_Stage3__ipg_bucket_flat_buffer",  # up to 0.16
    ),
    "offload buffers": (
        "temp_grad_buffer_for_cpu_offload",
        "temp_grad_buffer_for_gpu_offload",
        "param_buffer_of_bit16_for_cpu_offload_groups",
        "param_groups_fp16_flat_cpu_memory",
    ),
    "swap buffers": ("optimizer_swapper",),
}
_GRADIENTS = (
    "averaged_gradients",
    "all_grad_tensors",
    "accumulated_grads_in_cpu",
    "grad_partitions_flat_buffer",
    "fp32_groups_gradients_flat",
)
_RECORDS = ("deepspeed.runtime", "ds_lint.smoke")  # whose attributes may hold tensors: a bucket, a recording
_OURS = "ds-lint"
SCALARS = 512  # bytes that losses, norms and flags may take
_PATIENCE, _TICK = 1.0, 0.01  # seconds
_MOST_UNKNOWN = 3  # that are described


class Census:
    """The storages of one rank by what they belong to; of those that belong to nothing known, the largest.

    ``inputs`` are the dtypes and shapes of the batches, and ``ours`` is what ds-lint keeps, which is left out.
    """

    def __init__(self, engine: Any, inputs: set[tuple[torch.dtype, torch.Size]], ours: Any = None) -> None:
        self.held: dict[str, Held] = {}
        owned = dict(_places(_OURS, [ours])) | dict(_owners(engine))
        unknown: dict[int, torch.Tensor] = {}
        for place, tensor in _live().items():
            kind = owned.get(place) or ("inputs" if _is_input(tensor, inputs) else "unknown")
            if kind == _OURS:
                continue
            storage = tensor.untyped_storage()
            before = self.held.get(kind, Held(0, 0))
            elements = storage.nbytes() // tensor.element_size()
            self.held[kind] = Held(before.elements + elements, before.bytes + storage.nbytes())
            if kind == "unknown":
                unknown[place] = tensor
        self._largest = sorted(unknown.values(), key=lambda one: -one.untyped_storage().nbytes())[:_MOST_UNKNOWN]

    @property
    def unknown(self) -> list[UnknownStorage]:
        """The largest storages of unknown purpose; who holds each takes three walks over all objects of Python."""
        return [_described(tensor) for tensor in self._largest]


def settled(engine: Any, inputs: set[tuple[torch.dtype, torch.Size]], ours: Any) -> Census:
    """The census once nothing is on its way: a thread of Gloo keeps what it has sent for a moment longer."""
    found = Census(engine, inputs, ours)
    end = time.monotonic() + _PATIENCE
    while found.held.get("unknown", Held(0, 0)).bytes > SCALARS and time.monotonic() < end:
        del found  # which keeps the tensors alive
        time.sleep(_TICK)
        gc.collect()
        found = Census(engine, inputs, ours)
    return found


def begin() -> None:
    """Leave out what exists before the model is built: constants of the libraries, and what ds-lint holds."""
    gc.freeze()


def _live() -> dict[int, torch.Tensor]:
    """A tensor of each storage, by the address of the storage."""
    found: dict[int, torch.Tensor] = {}
    for one in gc.get_objects():
        if not issubclass(type(one), torch.Tensor):  # isinstance would ask a proxy, which may compute
            continue
        gradient = one.grad if one.is_leaf else None
        for tensor in (one, gradient):
            if tensor is not None and _has_storage(tensor):
                found.setdefault(tensor.untyped_storage().data_ptr(), tensor)
    return found


def _has_storage(tensor: torch.Tensor) -> bool:
    try:
        storage = tensor.untyped_storage()
        return bool(tensor.device.type != "meta" and storage.nbytes() > 0 and storage.data_ptr())
    except (NotImplementedError, RuntimeError):  # sparse tensors, and those of torch's tracers and its compiler
        return False


def _owners(engine: Any) -> Iterator[tuple[int, str]]:
    """The address of each storage that is known, with what it belongs to; the last one counts."""
    optimizer, model = engine.optimizer, engine.module
    everything = list(model.parameters())
    for kind, names in _BUFFERS.items():
        yield from _places(kind, (getattr(optimizer, name, None) for name in names))
    swappers = (getattr(parameter, "nvme_swapper", None) for parameter in everything)
    yield from _places("swap buffers", {id(one): one for one in swappers}.values())
    yield from _places("model buffers", model.buffers())
    yield from _places("gradients", (getattr(optimizer, name, None) for name in _GRADIENTS))
    yield from _places("gradients", (getattr(one, "grad", None) for one in probes.masters(engine)))
    yield from _places("gradients", (value for one in everything for value in (one.grad, _of(one, "grad_accum"))))
    scalars = (value for one in _optimizers(engine) for value in one.state.values())
    yield from _places("optimizer states", scalars)
    yield from _places("master weights", probes.masters(engine))
    yield from _places("secondary partitions", (_of(one, "ds_secondary_tensor") for one in everything))
    # Tensors that ``ds_status`` calls freed, and partitions that ``ds_tensor`` calls swapped out, are here too.
    yield from _places("parameters", (one.data for one in everything))
    yield from _places("parameters", (_of(one, "ds_tensor") for one in everything))


def _of(parameter: Any, name: str) -> Any:
    return getattr(parameter, name, None)


def _optimizers(engine: Any) -> list[Any]:
    """The optimizer that steps, and the original that ZeRO may have replaced."""
    both = (probes.inner_optimizer(engine), getattr(engine, "basic_optimizer", None))
    return [one for one in both if hasattr(one, "state")]


def _places(kind: str, values: Iterable[Any]) -> Iterator[tuple[int, str]]:
    for tensor in _tensors_in(list(values), set()):
        if _has_storage(tensor):
            yield tensor.untyped_storage().data_ptr(), kind


def _tensors_in(value: Any, seen: set[int]) -> Iterator[torch.Tensor]:
    """Tensors in containers, and in the attributes of records of DeepSpeed and of ds-lint."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if torch.is_tensor(value):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _tensors_in(one, seen)
    elif isinstance(value, (list, tuple, set)):
        for one in value:
            yield from _tensors_in(one, seen)
    elif type(value).__module__.startswith(_RECORDS):
        for one in getattr(value, "__dict__", {}).values():  # a list of them would give its id to the next one
            yield from _tensors_in(one, seen)


def _is_input(tensor: torch.Tensor, inputs: set[tuple[torch.dtype, torch.Size]]) -> bool:
    """Whether it is a batch: the Trainer fetches the next ones before it needs them."""
    return not tensor.is_floating_point() and (tensor.dtype, tensor.shape) in inputs


def _described(tensor: torch.Tensor) -> UnknownStorage:
    size = tensor.untyped_storage().nbytes()
    return UnknownStorage(size, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), _holder(tensor))


def _holder(tensor: torch.Tensor) -> str | None:
    """``DeepSpeedEngine._copy``, the attribute that keeps a tensor alive, or a closure; None if it is another thing."""
    for referrer in gc.get_referrers(tensor):
        if isinstance(referrer, types.CellType):
            functions = [one for one in gc.get_referrers(referrer) if isinstance(one, tuple)]
            named = (of for closure in functions for of in gc.get_referrers(closure) if hasattr(of, "__qualname__"))
            return next((f"the closure of {of.__qualname__}" for of in named if not _is_ours(of)), None)
        if isinstance(referrer, dict):
            owners = [one for one in gc.get_referrers(referrer) if getattr(one, "__dict__", None) is referrer]
        else:
            owners = [referrer] if hasattr(referrer, "__dict__") else []
        for owner in owners:
            name = next((name for name, value in vars(owner).items() if value is tensor), None)
            if name is not None:
                return f"{type(owner).__name__}.{name}"
    return None


def _is_ours(function: Any) -> bool:
    return getattr(function, "__module__", None) == __name__

"""What one rank holds: read from the engine's tensors, never from its settings.

Attributes of deepspeed 0.15 to 0.19: runtime/zero/stage3.py, stage_1_and_2.py, runtime/bf16_optimizer.py,
runtime/fp16/fused_optimizer.py and unfused_optimizer.py.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from ds_lint.diagnostics.verdict import Held
from ds_lint.smoke.records.job import Engine

# Where an optimizer of DeepSpeed keeps its fp32 weights: the first that there is.
_MASTERS = (
    "fp32_partitioned_groups_flat",  # stage 3
    "single_partition_of_fp32_groups",  # stages 1 and 2
    "fp32_groups_flat_partition",  # BF16_Optimizer
    "fp32_groups_flat",  # FP16_Optimizer
    "fp32_groups",  # FP16_UnfusedOptimizer
)
# What decides when a loss scale rises or falls: runtime/fp16/loss_scaler.py.
_OF_SCALER = ("cur_iter", "last_overflow_iter", "cur_hysteresis")
# Where ZeRO keeps gradients between two micro steps, beside the parameters.
_IN_WINDOW = ("averaged_gradients", "all_grad_tensors", "accumulated_grads_in_cpu")
_PIECE = 2**24  # elements that are computed with at once in fp64, beside what fills a GPU
_CACHED = 2**16  # elements that a CPU computes with in its cache: ten times as fast
_MIXING = 0x1E3779B97F4A7C15  # odd, so that no two places have the same multiple of it modulo 2**64
_FLAT = ("grad_partitions_flat_buffer", "fp32_groups_gradients_flat")  # there all the time; stage 3, BF16_Optimizer


def describe(engine: Any) -> Engine:
    """The settings of the engine."""
    optimizer = engine.optimizer
    return Engine(
        stage=int(engine.zero_optimization_stage()),
        train_batch_size=engine.train_batch_size(),
        micro_batch_size=engine.train_micro_batch_size_per_gpu(),
        accumulation_steps=engine.gradient_accumulation_steps(),
        clipping=float(getattr(optimizer, "clip_grad", engine.gradient_clipping()) or 0.0),
        zero_optimizer=type(optimizer).__name__,
        communication_dtype=_name(engine.communication_data_type),
        offloads_optimizer=_optimizer_offload(optimizer),
        offloads_parameters=_parameter_offload(engine),
        is_pinned=_is_pinned(optimizer),
    )


def counts_micro_steps(engine: Any) -> bool:
    """Whether the engine itself finds the last micro step; else each call of its ``step`` ends a window.

    Source: ``managed_gradient_accumulation`` in deepspeed/runtime/engine.py.
    """
    managed = getattr(engine, "managed_gradient_accumulation", None)
    return managed is None or bool(managed())


def is_coalescing(engine: Any) -> bool:
    """Whether gradients stay as they are until ``engine.coalesce_grad_reduction`` reduces them, before the step."""
    return bool(getattr(engine.optimizer, "_coalesce_grad_reduction", False))


def inner_optimizer(engine: Any) -> Any:
    """The optimizer below ZeRO's and the precision's, which makes the steps.

    None if there is none, as of a reference model: at stage 3 its engine has what gathers the weights in that place
    (``DeepSpeedZeRoOffload``).
    """
    below = getattr(engine.optimizer, "optimizer", None)
    every = (below, getattr(engine, "basic_optimizer", None), engine.optimizer)
    return next((one for one in every if hasattr(one, "param_groups")), None)


def _optimizer_offload(optimizer: Any) -> str | None:
    """Where the optimizer's own flags say that its states are: those that its code branches on."""
    if getattr(optimizer, "swap_optimizer", False):
        return "nvme"
    return "cpu" if getattr(optimizer, "offload_optimizer", getattr(optimizer, "cpu_offload", False)) else None


def _parameter_offload(engine: Any) -> str | None:
    """Where the partitions of the parameters are when nothing computes with them; only ZeRO-3 has any."""
    devices = {
        _name(getattr(parameter.ds_tensor, "final_location", None) or parameter.ds_tensor.device.type)
        for parameter in engine.module.parameters()
        if hasattr(parameter, "ds_tensor")
    }
    optimizer = engine.optimizer
    if getattr(optimizer, "params_in_nvme_and_cpu", False) or "nvme" in devices:
        return "nvme"
    # Without an optimizer, DeepSpeedZeRoOffload has the device.
    is_offloaded = getattr(optimizer, "offload_param", _name(getattr(optimizer, "offload_device", None)) == "cpu")
    return "cpu" if is_offloaded else None


def _is_pinned(optimizer: Any) -> bool | None:
    """Whether what an offloaded optimizer keeps in host memory is page-locked; None without a GPU.

    Sources: ``cpu_offload_pin_memory`` in stage_1_and_2.py, ``offload_optimizer_pin_memory`` in stage3.py.
    """
    if not torch.cuda.is_available() or _optimizer_offload(optimizer) is None:
        return None
    from deepspeed.accelerator import get_accelerator  # it pins pages in several ways, of which torch knows one

    kept = (
        getattr(optimizer, name, None) for name in ("single_partition_of_fp32_groups", "grad_partitions_flat_buffer")
    )
    return any(get_accelerator().is_pinned(tensor) for tensor in _tensors(kept) if tensor.device.type == "cpu")


# ------------------------------------------------------------------------------------------------------- what is held


class Holding:
    """The tensors of one kind on this rank: elements that have storage, each storage once."""

    def __init__(self, tensors: Iterable[Any]) -> None:
        self.elements = self.bytes = 0
        self.dtypes: set[str] = set()
        self.devices: set[str] = set()
        seen = set()
        for tensor in _tensors(tensors):
            place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.numel())
            elements = backed(tensor)
            if elements == 0 or place in seen:
                continue
            seen.add(place)
            self.elements += elements
            self.bytes += elements * tensor.element_size()
            self.dtypes.add(_name(tensor.dtype))
            self.devices.add(tensor.device.type)

    @property
    def held(self) -> Held:
        """The numbers alone."""
        return Held(self.elements, self.bytes)


def backed(tensor: torch.Tensor) -> int:
    """The elements of a tensor that have storage behind them; one that was swapped out has none."""
    return int(min(tensor.numel(), tensor.untyped_storage().nbytes() // tensor.element_size()))


def holdings(engine: Any) -> dict[str, Holding]:
    """What this rank holds after some steps, by kind."""
    return {
        "parameters": Holding(parameters(engine)),
        "master weights": Holding(masters(engine)),
        **{name: Holding(tensors) for name, tensors in sorted(states(engine).items())},
    }


def parameters(engine: Any) -> Iterator[torch.Tensor]:
    """The weights that this rank computes with: under ZeRO-3 its partitions, and whatever is gathered beside them."""
    for parameter in engine.module.parameters():
        if not hasattr(parameter, "ds_tensor"):
            yield parameter.data
            continue
        if parameter.ds_tensor.status.name == "AVAILABLE":
            yield parameter.ds_tensor.data
        if parameter.ds_status.name == "AVAILABLE":
            yield parameter.data


def own_part(parameter: Any) -> tuple[int, torch.Tensor]:
    """What this rank computes with of a parameter, and where that begins; nothing of a part that is on NVMe.

    What pads the part of the last rank is left out: no checkpoint has that of frozen weights.
    """
    if not hasattr(parameter, "ds_tensor"):
        return 0, parameter.data.reshape(-1)
    part = parameter.ds_tensor.data
    if backed(part) < part.numel():
        return 0, part.new_empty(0)
    start = torch.distributed.get_rank(parameter.ds_process_group) * part.numel()
    return start, part.reshape(-1)[: max(0, parameter.ds_numel - start)]


def copies(engine: Any) -> list[str]:
    """The parameters that every rank has whole: not those of ZeRO-3, nor experts that ranks divide among them."""
    named = engine.module.named_parameters()
    return [name for name, one in named if not hasattr(one, "ds_tensor") and expert_ranks(one) <= 1]


def secondary_elements(engine: Any) -> int:
    """Elements of the partitions that the ranks of a group share (hpZ), beside those that all ranks share."""
    return Holding(getattr(one, "ds_secondary_tensor", None) for one in engine.module.parameters()).elements


def persistent_elements(engine: Any) -> int:
    """Elements of parameters that ZeRO-3 keeps whole on every rank."""
    return sum(p.ds_numel for p in engine.module.parameters() if getattr(p, "ds_persist", False))


def shapes_of_muon(engine: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters that DeepSpeed has tagged for Muon, by name; empty with another optimizer.

    Source: ``set_optimizer_flags`` in deepspeed/__init__.py.
    """
    named = engine.module.named_parameters()
    return {
        name: tuple(getattr(parameter, "ds_shape", parameter.shape))
        for name, parameter in named
        if getattr(parameter, "use_muon", False)
    }


def masters(engine: Any) -> list[torch.Tensor]:
    """The fp32 weights beside the parameters; none if the optimizer updates the parameters themselves.

    Those that are on NVMe have no elements.
    """
    buffers = _swap_buffers(engine.optimizer)
    return [_unless_swapped(tensor, buffers) for tensor in tensors_of_masters(engine)]


def tensors_of_masters(engine: Any) -> list[torch.Tensor]:
    """The tensors themselves that the optimizer steps on, whether their elements are in memory or on NVMe."""
    for attribute in _MASTERS:
        if hasattr(engine.optimizer, attribute):
            return list(_tensors(getattr(engine.optimizer, attribute)))
    return []


def _swap_buffers(optimizer: Any) -> set[int]:
    """The storages of the buffers through which an optimizer swaps, as many and as large as the config says.

    ``PipelinedOptimizerSwapper`` leaves a tensor that it has written as a view of a buffer, which the next tensor gets.
    """
    manager = getattr(getattr(optimizer, "optimizer_swapper", None), "swap_buffer_manager", None)
    return {buffer.untyped_storage().data_ptr() for buffer in getattr(manager, "all_buffers", ())}


def _unless_swapped(tensor: torch.Tensor, buffers: set[int]) -> torch.Tensor:
    """The tensor, without elements if it is a view of a swap buffer: what it holds is on NVMe."""
    is_swapped = bool(buffers) and tensor.untyped_storage().data_ptr() in buffers
    return tensor.new_empty(0) if is_swapped else tensor


def states(engine: Any) -> dict[str, list[torch.Tensor]]:
    """What the optimizer keeps of every element, by name: ``exp_avg``, ``momentum_buffer``.

    ZeRO creates Adagrad again for its partitions, and the engine keeps the original one, with its states.
    """
    optimizers = {id(one): one for one in (inner_optimizer(engine), getattr(engine, "basic_optimizer", None)) if one}
    buffers = _swap_buffers(engine.optimizer)
    found: dict[str, list[torch.Tensor]] = {}
    # An engine of stage 3 without an optimizer has a DeepSpeedZeRoOffload in its place, which keeps no states.
    for state in (state for one in optimizers.values() for state in getattr(one, "state", {}).values()):
        for name, value in state.items():
            if torch.is_tensor(value) and value.dim() > 0:
                found.setdefault(name, []).append(_unless_swapped(value, buffers))
    return found


def gradients(engine: Any) -> Holding:
    """The gradients between the last backward of a window and its step, wherever this optimizer keeps them."""
    optimizer = engine.optimizer
    kept: list[Any] = [
        getattr(optimizer, "averaged_gradients", None),
        getattr(optimizer, "fp32_groups_gradients_flat", None),
        [getattr(master, "grad", None) for master in masters(engine)],
    ]
    partitioned = Holding(kept)
    return partitioned if partitioned.elements else Holding(_of_parameters(engine))


def expert_ranks(parameter: Any) -> int:
    """The ranks that divide the experts of a layer among them; 0 if it is not a parameter of an expert.

    Sources: deepspeed/moe/layer.py and experts.py, which name the group of an expert ``ep_size_2``.
    """
    size = str(getattr(parameter, "group_name", "")).rpartition("_")[2]
    return int(size) if getattr(parameter, "allreduce", True) is False and size.isdigit() else 0


def dtypes_of(engine: Any, *, is_trained: bool) -> list[str]:
    """The dtypes of the parameters that are trained, or of those that are frozen."""
    return sorted({_name(one.dtype) for one in engine.module.parameters() if one.requires_grad == is_trained})


def frozen(engine: Any) -> dict[str, str]:
    """A digest of what this rank holds of each parameter that is not trained; of those on NVMe it holds nothing."""
    parts = {
        name: own_part(parameter)[1]
        for name, parameter in engine.module.named_parameters()
        if not parameter.requires_grad
    }
    return {name: mark(part) for name, part in parts.items() if part.numel()}


def squared_norm(optimizer: Any) -> float:
    """Of the gradients that a step is about to be made with."""
    gradients = (parameter.grad for group in optimizer.param_groups for parameter in group["params"])
    return sum(_sum_of_squares(gradient) for gradient in gradients if gradient is not None)


def unreported_norm(engine: Any) -> float | None:
    """The norm of the gradients before clipping, without an optimizer of DeepSpeed, which alone reports it."""
    if masters(engine):
        return None
    gradients = (one.grad for one in engine.module.parameters() if one.grad is not None)
    return math.sqrt(sum(_sum_of_squares(gradient) for gradient in gradients))


def _sum_of_squares(tensor: torch.Tensor) -> float:
    """In fp64."""
    elements = _CACHED if tensor.device.type == "cpu" else _PIECE
    return sum(float(piece.double().square().sum()) for piece in tensor.detach().reshape(-1).split(elements))


def gradients_in_window(engine: Any) -> Holding:
    """The gradients before the last micro step of a window: whole in stage 1, a partition in stage 2."""
    optimizer = engine.optimizer
    kept = Holding([*_of_parameters(engine), *(getattr(optimizer, name, None) for name in _IN_WINDOW)])
    return kept if kept.elements else Holding([getattr(optimizer, name, None) for name in _FLAT])


def _of_parameters(engine: Any) -> list[Any]:
    return [
        gradient
        for parameter in engine.module.parameters()
        for gradient in (parameter.grad, getattr(parameter, "grad_accum", None))
    ]


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if torch.is_tensor(values):
        yield values
    elif isinstance(values, dict):
        for value in values.values():
            yield from _tensors(value)
    elif isinstance(values, Iterable) and not isinstance(values, str):
        for value in values:
            yield from _tensors(value)


# ------------------------------------------------------------------------------------------------------- fingerprints


def fingerprint(engine: Any) -> dict[str, str]:
    """A mark of every tensor that this rank holds, without communication, and of where the training is."""
    digests = parameter_marks(engine)
    for index, master in enumerate(masters(engine)):
        digests[f"master weights {index}"] = mark(_without_padding(engine.optimizer, index, master))
    buffers = _swap_buffers(engine.optimizer)
    for index, state in enumerate(inner_optimizer(engine).state.values()):
        for name, value in state.items():
            # Loading may give a state another dtype; what counts is whether its values are the same.
            is_tensor = torch.is_tensor(value)
            digests[f"{name} {index}"] = mark(_unless_swapped(value, buffers).float()) if is_tensor else str(value)
    scale = loss_scale(engine)
    digests["loss scale"] = str(scale)
    scaler = getattr(engine.optimizer, "loss_scaler", None) or getattr(engine.optimizer, "loss_scale_config", None)
    for name in _OF_SCALER if scale is not None else ():
        if hasattr(scaler, name):
            digests[f"loss scaler's {name}"] = str(getattr(scaler, name))
    digests["steps"] = str(engine.global_steps)
    digests["learning rate"] = str([group["lr"] for group in inner_optimizer(engine).param_groups])
    return digests


def parameter_marks(engine: Any) -> dict[str, str]:
    """A mark of what this rank holds of each parameter."""
    return {f"parameter {name}": mark(own_part(one)[1]) for name, one in engine.module.named_parameters()}


def _without_padding(optimizer: Any, group: int, master: torch.Tensor) -> torch.Tensor:
    """The weights of a partition of stages 1 and 2; Lion changes what pads it, and a checkpoint does not have that."""
    padding = getattr(optimizer, "groups_padding", None)
    if not padding or not isinstance(padding[group], int):  # stage 3 has them by parameter, and saves them
        return master
    return master.narrow(0, 0, max(0, backed(master) - padding[group]))


def mark(tensor: torch.Tensor) -> str:
    """What tells a tensor of this rank from another one on the same device: a digest, or on a GPU a sum of its words.

    A GPU adds up its 80 GB in less than a second; SHA-1 would take a minute on the host, after a copy.
    """
    if tensor.device.type == "cpu" or not backed(tensor):
        return digest(tensor)
    return f"{_name(tensor.dtype)} {list(tensor.shape)} {sum_of_words(tensor):016x}"


def sum_of_words(tensor: torch.Tensor) -> int:
    """The sum of the 16-bit or 8-bit words of a tensor, each times an odd number of its place, modulo 2**64."""
    raw = tensor.detach().contiguous().reshape(-1)
    words = raw.view(torch.int16 if raw.element_size() % 2 == 0 else torch.uint8)
    total = 0
    for number, piece in enumerate(words.split(_PIECE)):
        places = torch.arange(piece.numel(), device=piece.device) + number * _PIECE
        factors = (places * _MIXING) ^ ((places * _MIXING) >> 29) | 1
        total += int(((piece.to(torch.int64) + 1) * factors).sum())
    return total % 2**64


def digest(tensor: torch.Tensor) -> str:
    """A digest of a tensor's dtype, shape and bytes."""
    value = tensor.detach().contiguous().cpu()
    if not backed(value):
        return "empty"
    raw = value.reshape(-1).view(torch.uint8).numpy()
    return f"{_name(tensor.dtype)} {list(tensor.shape)} {hashlib.sha1(raw, usedforsecurity=False).hexdigest()}"


def loss_scale(engine: Any) -> float | None:
    """The loss scale of the engine; None if there is none."""
    optimizer = engine.optimizer
    if not engine.fp16_enabled():
        return None
    scale = getattr(optimizer, "loss_scale", None)
    return float(scale) if scale is not None else None


def swapped_bytes(folder: str) -> int:
    """Bytes of the files below a folder to which DeepSpeed swaps tensors."""
    return sum(
        os.path.getsize(os.path.join(parent, name))
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(".tensor.swp")
    )


def _name(value: Any) -> str:
    return str(value).removeprefix("torch.").rpartition(".")[2]

"""The whole weights, put together by hand from what every rank holds.

No function of DeepSpeed that returns a parameter by its name is asked: each follows a table of its own, and one of
those is wrong. (``safe_get_full_fp32_param`` gives other parameters with ``round_robin_gradients``.) What is taken are
the weights that the ranks compute with, and where a parameter lies in the fp32 partitions; fp32 weights that are not
those weights when they are rounded were not found where they were looked for, and are not used.

Attributes of deepspeed 0.15 to 0.19: runtime/zero/stage3.py, stage_1_and_2.py, runtime/bf16_optimizer.py.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import probes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FLAT = ("bit16_groups_flat", "bf16_groups_flat")  # stages 1 and 2, BF16_Optimizer: every group of weights in one row


def live(engine: Any) -> dict[str, torch.Tensor]:
    """The weights that the ranks compute with, by name; every rank takes part."""
    return {name: _live(parameter, engine.device) for name, parameter in engine.module.named_parameters()}


def bytes_of(engine: Any) -> int:
    """What the whole weights take, in the dtype that the ranks compute with."""
    parameters = engine.module.parameters()
    return sum(getattr(one, "ds_numel", one.numel()) * one.element_size() for one in parameters)


def digests(engine: Any, *, is_kept: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Digests of the weights as they are saved, and as a checkpoint has to bring them back.

    Every rank takes part, and those that do not keep them get none. One parameter after the other is put together, so
    that a model needs no room for its whole weights. What ZeRO++ quantizes on its way into a file loses digits, as only
    DeepSpeed does it. A checkpoint has the fp32 weights, or the live ones where those are not in memory.
    """
    is_quantized = getattr(engine, "zero_quantized_weights", bool)()
    masters = dict(_masters(engine))
    saved: dict[str, str] = {}
    trained: dict[str, str] = {}
    for name, parameter in engine.module.named_parameters():
        live = _live(parameter, engine.device)
        in_file = _gathered(parameter) if is_quantized else live
        master = masters[parameter]() if parameter in masters else None
        if is_kept:
            saved[name] = probes.digest(in_file)
            is_known = master is not None and _is_same(master.to(live.dtype), live)
            trained[name] = probes.digest(master.float() if master is not None and is_known else live)
    return saved, trained


def _is_same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit for bit, so that NaN is the same as NaN."""
    return one.shape == other.shape and bool(torch.equal(_bytes_of(one), _bytes_of(other)))


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _live(parameter: Any, device: Any) -> torch.Tensor:
    if not hasattr(parameter, "ds_tensor"):
        return parameter.data.clone()
    own, group = parameter.ds_tensor.data, parameter.ds_process_group
    ranks = torch.distributed.get_world_size(group)
    # NVMe has what is not in memory, MiCS shares parameters with fewer ranks than its group has, and ZeRO++ quantizes.
    is_quantized = hasattr(parameter.ds_tensor, "ds_quant_scale")
    if not is_quantized and probes.backed(own) == own.numel() == -(-parameter.ds_numel // ranks):
        whole = torch.cat(_of_all_ranks(own, group, device))
        return whole[: parameter.ds_numel].reshape(parameter.ds_shape)
    return _gathered(parameter)


def _gathered(parameter: Any) -> torch.Tensor:
    """A parameter as DeepSpeed gathers it."""
    import deepspeed

    with deepspeed.zero.GatheredParameters([parameter]):
        return parameter.data.clone()


def _masters(engine: Any) -> Iterator[tuple[Any, Callable[[], torch.Tensor]]]:
    """Each parameter with what puts its fp32 weights together, in which every rank takes part."""
    partitions = probes.masters(engine)
    if any(probes.backed(partition) < partition.numel() for partition in partitions):
        return  # on NVMe
    optimizer = engine.optimizer
    if hasattr(optimizer, "fp32_partitioned_groups_flat"):
        for parameters, partition in zip(optimizer.fp16_groups, partitions, strict=True):
            yield from _of_stage_3(parameters, partition, engine.device)
    groups: list[Any] = next((getattr(optimizer, name) for name in _FLAT if hasattr(optimizer, name)), [])
    for index, (flat, partition) in enumerate(zip(groups, partitions, strict=False)):
        group = optimizer.real_dp_process_group[index]
        for parameter in engine.module.parameters():
            if parameter.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr():
                start = (parameter.data_ptr() - flat.data_ptr()) // flat.element_size()
                yield parameter, functools.partial(_of_row, partition, start, parameter.shape, group, engine.device)


def _of_row(partition: torch.Tensor, start: int, shape: torch.Size, group: Any, device: Any) -> torch.Tensor:
    """A parameter of a row that the ranks share in equal parts, one behind the other; its part may be anywhere in it.

    What a rank does not have is zero, and the sum over the ranks has the bits of each.
    """
    whole = torch.zeros(shape.numel(), dtype=partition.dtype, device=device)
    offset = torch.distributed.get_rank(group) * partition.numel() - start  # of the rank's part, in the parameter
    first, last = max(0, offset), min(whole.numel(), offset + partition.numel())
    if first < last:
        whole[first:last] = partition[first - offset : last - offset]
    torch.distributed.all_reduce(whole.view(torch.uint8), group=group)
    return whole.reshape(shape)


def _of_stage_3(
    parameters: list[Any], partition: torch.Tensor, device: Any
) -> Iterator[tuple[Any, Callable[[], torch.Tensor]]]:
    """Those of a sub-group: each rank has a part of every parameter, one behind the other."""
    sizes = [parameter.ds_tensor.numel() for parameter in parameters]
    if not parameters or sum(sizes) != partition.numel():
        return
    for parameter, size, end in zip(parameters, sizes, itertools.accumulate(sizes), strict=True):
        if size * torch.distributed.get_world_size(parameter.ds_process_group) >= parameter.ds_numel:
            yield parameter, functools.partial(_of_parts, partition[end - size : end], parameter, device)


def _of_parts(part: torch.Tensor, parameter: Any, device: Any) -> torch.Tensor:
    whole = torch.cat(_of_all_ranks(part, parameter.ds_process_group, device))
    return whole[: parameter.ds_numel].reshape(parameter.ds_shape)


def _of_all_ranks(own: torch.Tensor, group: Any, device: Any) -> list[torch.Tensor]:
    """What each rank has, as bytes on the way: Gloo does not know every dtype."""
    sent = own.detach().contiguous().to(device).view(torch.uint8)
    parts = [torch.empty_like(sent) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(parts, sent, group=group)
    return [part.view(own.dtype) for part in parts]

"""The whole weights, put together by hand from what every rank holds.

No function of DeepSpeed that returns a parameter by its name is asked: each follows a table of its own, and one of
those is wrong. (``safe_get_full_fp32_param`` gives other parameters with ``round_robin_gradients``.) What is taken are
the weights that the ranks compute with, and where a parameter lies in the fp32 partitions; fp32 weights that are not
those weights when they are rounded were not found where they were looked for, and are not used.

Attributes of deepspeed 0.15 to 0.19: runtime/zero/stage3.py, stage_1_and_2.py, runtime/bf16_optimizer.py.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.rank import probes

if TYPE_CHECKING:
    from collections.abc import Iterator

_FLAT = ("bit16_groups_flat", "bf16_groups_flat")  # stages 1 and 2, BF16_Optimizer: every group of weights in one row


def live(engine: Any) -> dict[str, torch.Tensor]:
    """The weights that the ranks compute with, by name; every rank takes part."""
    return {name: _live(parameter, engine.device) for name, parameter in engine.module.named_parameters()}


def saved(engine: Any, live: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The weights as they are saved; those that ZeRO++ quantizes on the way lose digits, as only DeepSpeed does it."""
    if not getattr(engine, "zero_quantized_weights", bool)():
        return live
    return {name: _gathered(parameter) for name, parameter in engine.module.named_parameters()}


def trained(engine: Any, live: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What a checkpoint has to bring back: the fp32 weights, or the live ones where those are not in memory."""
    masters = dict(_masters(engine))
    return {
        name: masters[parameter].float() if _is_same(masters.get(parameter), live[name]) else live[name]
        for name, parameter in engine.module.named_parameters()
    }


def _is_same(master: torch.Tensor | None, weight: torch.Tensor) -> bool:
    """Whether an fp32 weight is that of a live one: bit for bit, so that NaN is the same as NaN."""
    return master is not None and probes.digest(master.to(weight.dtype)) == probes.digest(weight)


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


def _masters(engine: Any) -> Iterator[tuple[Any, torch.Tensor]]:
    """Each parameter with its fp32 weights."""
    partitions = probes.masters(engine)
    if any(probes.backed(partition) < partition.numel() for partition in partitions):
        return  # on NVMe
    optimizer = engine.optimizer
    if hasattr(optimizer, "fp32_partitioned_groups_flat"):
        for parameters, partition in zip(optimizer.fp16_groups, partitions, strict=True):
            yield from _of_stage_3(parameters, partition, engine.device)
    groups: list[Any] = next((getattr(optimizer, name) for name in _FLAT if hasattr(optimizer, name)), [])
    for index, (flat, partition) in enumerate(zip(groups, partitions, strict=False)):
        whole = torch.cat(_of_all_ranks(partition, optimizer.real_dp_process_group[index], engine.device))
        for parameter in engine.module.parameters():
            if parameter.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr():
                start = (parameter.data_ptr() - flat.data_ptr()) // flat.element_size()
                yield parameter, whole[start : start + parameter.numel()].reshape(parameter.shape)


def _of_stage_3(parameters: list[Any], partition: torch.Tensor, device: Any) -> Iterator[tuple[Any, torch.Tensor]]:
    """Those of a sub-group: each rank has a part of every parameter, one behind the other."""
    sizes = [parameter.ds_tensor.numel() for parameter in parameters]
    if not parameters or sum(sizes) != partition.numel():
        return
    rows = _of_all_ranks(partition, parameters[0].ds_process_group, device)
    for parameter, size, end in zip(parameters, sizes, itertools.accumulate(sizes), strict=True):
        whole = torch.cat([row[end - size : end] for row in rows])
        if whole.numel() >= parameter.ds_numel:
            yield parameter, whole[: parameter.ds_numel].reshape(parameter.ds_shape)


def _of_all_ranks(own: torch.Tensor, group: Any, device: Any) -> list[torch.Tensor]:
    """What each rank has, as bytes on the way: Gloo does not know every dtype."""
    sent = own.detach().contiguous().to(device).view(torch.uint8)
    parts = [torch.empty_like(sent) for _ in range(torch.distributed.get_world_size(group))]
    torch.distributed.all_gather(parts, sent, group=group)
    return [part.view(own.dtype) for part in parts]

"""What this rank holds of a model that FSDP shards: read from its tensors, and the units from what gathers them.

Attributes of torch 2.6 to 2.13: ``FlatParamHandle`` in torch/distributed/fsdp/_flat_param.py, ``FSDPParamGroup`` in
torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py. Nothing here gathers a parameter, so any rank may ask alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch.distributed.fsdp import FullyShardedDataParallel

from ds_lint.smoke.records.fsdp import FSDP1, FSDP2, FsdpHolding, FsdpUnit, ParameterShard, plain_name

if TYPE_CHECKING:
    from collections.abc import Iterator


def version_of(model: Any) -> str | None:
    """Which FSDP shards a model or a part of it; None if none does."""
    if any(isinstance(module, FullyShardedDataParallel) for module in model.modules()):
        return FSDP1
    return FSDP2 if any(True for module in model.modules() if _groups(module)) else None


def holding(model: Any) -> FsdpHolding:
    """What this rank holds of a model; call it when no forward or backward pass is under way."""
    version = version_of(model)
    units = list(_flat_units(model) if version == FSDP1 else _row_units(model))
    known = {name for unit in units for name in (one.name for one in unit.shards)}
    outside = [
        _whole(plain_name(name), one)
        for name, one in model.named_parameters()
        if plain_name(name) not in known and not isinstance(one, torch.distributed.fsdp.FlatParameter)
    ]
    buffers = tuple((plain_name(name), dtype_name(one.dtype)) for name, one in model.named_buffers())
    return FsdpHolding(version or FSDP2, tuple(units), tuple(outside), buffers)


def local(tensor: Any) -> torch.Tensor:
    """The tensor that this rank keeps of a parameter, a gradient or a state."""
    found: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return found.detach()


def stored_elements(tensor: Any) -> int:
    """The elements of the storage behind a tensor, with what pads them; 0 if it is freed."""
    one = local(tensor)
    return int(one.untyped_storage().nbytes() // one.element_size())


def dtype_name(dtype: torch.dtype) -> str:
    """``bfloat16`` for ``torch.bfloat16``."""
    return str(dtype).removeprefix("torch.")


# ---------------------------------------------------------------------------------------------------------- FSDP 1


def handles(model: Any) -> Iterator[tuple[str, Any]]:
    """The flat parameters of FSDP 1, with the names of their modules, as the model without wrappers has them."""
    for name, module in model.named_modules():
        handle = getattr(module, "_handle", None) if isinstance(module, FullyShardedDataParallel) else None
        if handle is not None:
            yield plain_name(name), handle


def overwritten_gradients(model: Any) -> set[int]:
    """Ids of the parameters whose next gradient is copied over the last one, which nothing has to clear.

    Offloaded units show the last one in their forward pass. Source: ``_offload_grad`` in
    torch/distributed/fsdp/_runtime_utils.py.
    """
    flat = (handle.flat_param for _, handle in handles(model) if handle._offload_params)  # noqa: SLF001
    return {id(one) for parameter in flat for one in (parameter, *(parameter._params or ()))}  # noqa: SLF001


def _flat_units(model: Any) -> Iterator[FsdpUnit]:
    for name, handle in handles(model):
        flat = handle.flat_param
        prefix = f"{name}." if name else ""
        mixed = handle._fwd_bwd_param_dtype, handle._reduce_dtype  # noqa: SLF001 - no other place has them
        names = [f"{prefix}{plain_name(one)}" for one in flat._fqns]  # noqa: SLF001
        is_sharded = handle.uses_sharded_strategy
        places = flat._shard_param_infos if is_sharded else [None] * len(names)  # noqa: SLF001
        trained = [one.requires_grad for one in flat._params or ()] or [flat.requires_grad] * len(names)  # noqa: SLF001
        state = next(one for one in model.modules() if getattr(one, "_handle", None) is handle)
        yield FsdpUnit(
            modules=(name,),
            ranks=handle.world_size if is_sharded else 1,
            place=handle.rank if is_sharded else 0,
            copies=_copies(state) if is_sharded else torch.distributed.get_world_size(handle.process_group),
            stored=stored_elements(flat),
            shards=tuple(
                _flat_shard(one, tuple(shape), place, flat, is_trained=is_trained)
                for one, shape, place, is_trained in zip(names, flat._shapes, places, trained, strict=True)  # noqa: SLF001
            ),
            compute_dtype=dtype_name(mixed[0]),
            reduce_dtype=dtype_name(mixed[1]),
            keeps_original=bool(handle._use_orig_params),  # noqa: SLF001
            reshards=handle._sharding_strategy.name in ("FULL_SHARD", "HYBRID_SHARD"),  # noqa: SLF001
            offloads=bool(handle._offload_params),  # noqa: SLF001
        )


def _flat_shard(name: str, shape: tuple[int, ...], place: Any, flat: Any, *, is_trained: bool) -> ParameterShard:
    start, elements = 0, math.prod(shape)
    if place is not None:
        start, elements = (place.intra_param_start_idx, place.numel_in_shard) if place.in_shard else (0, 0)
    return ParameterShard(name, shape, start, elements, dtype_name(flat.dtype), flat.device.type, is_trained)


def _copies(module: Any) -> int:
    group = getattr(module, "_inter_node_pg", None)
    return torch.distributed.get_world_size(group) if group is not None else 1


# ---------------------------------------------------------------------------------------------------------- FSDP 2


def _groups(module: Any) -> list[Any]:
    """The parameter groups that ``fully_shard`` has made for a module."""
    find = getattr(module, "_get_fsdp_state", None)
    state = find() if find is not None else None
    if state is None:
        return []
    groups = getattr(state, "_fsdp_param_groups", None)
    if groups is None:
        groups = [state._fsdp_param_group]  # noqa: SLF001 - up to torch 2.12
    return [one for one in groups if one is not None]


def param_groups(model: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The parameter groups of FSDP 2, each once, with the names of their modules."""
    names = {id(module): plain_name(name) for name, module in model.named_modules(remove_duplicate=False)}
    seen = set()
    for module in model.modules():
        for group in _groups(module):
            if id(group) not in seen:
                seen.add(id(group))
                yield tuple(names.get(id(one), "?") for one in group.modules), group


def unit_parameters(model: Any) -> Iterator[tuple[Any, str]]:
    """What FSDP 2 knows of each parameter of its units, with its name."""
    names = {id(module): plain_name(name) for name, module in model.named_modules()}
    for _, group in param_groups(model):
        for one in group.fsdp_params:
            info = one._module_info  # noqa: SLF001
            prefix = names.get(id(info.module), "?")
            yield one, f"{prefix}.{info.param_name}" if prefix else info.param_name


def _row_units(model: Any) -> Iterator[FsdpUnit]:
    names = {id(one): plain_name(name) for name, one in model.named_parameters()}  # of tied names, the first
    for modules, group in param_groups(model):
        mesh = group.mesh_info
        policy = group.mp_policy
        parameters = [one.sharded_param for one in group.fsdp_params]
        yield FsdpUnit(
            modules=modules,
            ranks=getattr(mesh, "shard_mesh_size", 1),
            place=getattr(mesh, "shard_mesh_rank", 0),
            copies=getattr(mesh, "replicate_mesh_size", 1),
            stored=sum(map(stored_elements, parameters)),
            shards=tuple(_row_shard(_name_of(one, names), one.sharded_param) for one in group.fsdp_params),
            compute_dtype=dtype_name(policy.param_dtype) if policy.param_dtype is not None else None,
            reduce_dtype=dtype_name(policy.reduce_dtype) if policy.reduce_dtype is not None else None,
            reshards=group.post_forward_mesh_info is not None,
            offloads=type(group.offload_policy).__name__ == "CPUOffloadPolicy",
        )


def _name_of(fsdp_param: Any, names: dict[int, str]) -> str:
    """The name of a parameter: the model may have got another object in its place, as weights that are loaded."""
    info = fsdp_param._module_info  # noqa: SLF001 - no other place has it
    places = [(info.module, info.param_name), *zip(info.shared_modules, info.shared_param_names, strict=True)]
    found = (names.get(id(getattr(module, name, None))) for module, name in places)
    return next((name for name in found if name is not None), info.param_name)


def _row_shard(name: str, parameter: Any) -> ParameterShard:
    """The rows that this rank has, counted through the mesh of the parameter."""
    kept = local(parameter)
    start, shape = 0, tuple(parameter.shape)
    for dim, placement in enumerate(parameter.placements):
        if placement.is_shard() and kept.numel():
            rows = math.ceil(shape[placement.dim] / parameter.device_mesh.size(dim))
            start = parameter.device_mesh.get_local_rank(dim) * rows * math.prod(shape[placement.dim + 1 :])
    return ParameterShard(
        name, shape, start, kept.numel(), dtype_name(kept.dtype), kept.device.type, parameter.requires_grad
    )


def _whole(name: str, parameter: Any) -> ParameterShard:
    kept = local(parameter)
    return ParameterShard(
        name, tuple(parameter.shape), 0, kept.numel(), dtype_name(kept.dtype), kept.device.type, parameter.requires_grad
    )

"""What the script asks FSDP of torch for: the calls that shard its modules, as they are before FSDP acts on them."""

from __future__ import annotations

import sys
import sysconfig
import weakref
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe.fsdp_shards import dtype_name
from ds_lint.smoke.observe.sampled_step import few_of
from ds_lint.smoke.records.fsdp import FSDP1, FSDP2, plain_name
from ds_lint.smoke.records.fsdp_trace import WrapCall

if TYPE_CHECKING:
    import inspect

_LIBRARIES = tuple({sysconfig.get_paths()[name] for name in ("purelib", "platlib", "stdlib")})
_OWN = f"ds_lint{'/'}smoke{'/'}"
_LARGEST = 2**22  # elements of a parameter of which samples are kept before it is sharded


class WrappedModule:
    """A module that a call shards, with its parameters at that time: their names in it, shapes, and a few elements."""

    def __init__(self, module: Any, call: WrapCall, script: str) -> None:
        self.module = weakref.ref(module)
        self.call = call
        self.script = script
        self.parameters = [
            Before(plain_name(name), one)
            for name, one in module.named_parameters(remove_duplicate=False)
            if not _is_sharded(one)
        ]


class Before:
    """A parameter before it is sharded."""

    def __init__(self, name: str, parameter: Any) -> None:
        self.name = name
        self.shape = tuple(parameter.shape)
        self.parameter = weakref.ref(parameter)
        self.sample: list[float] = []
        if not parameter.is_meta and 0 < parameter.numel() <= _LARGEST:
            places = few_of(parameter.numel()).to(parameter.device)
            self.sample = parameter.detach().reshape(-1)[places].double().tolist()


def wrapped(signature: inspect.Signature, version: str, args: Any, kwargs: Any) -> list[WrappedModule]:
    """The modules that a call is about to shard; none if the call is refused for its arguments."""
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError:
        return []
    modules = given["module"]
    script, line = place()
    call = _of_first(given) if version == FSDP1 else _of_second(given)
    call.line = line
    return [WrappedModule(one, call.but(), script) for one in (modules if isinstance(modules, list) else [modules])]


def place() -> tuple[str, int]:
    """The file and the line of the script on the stack: the innermost code that is of none of the libraries."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - ``inspect.stack`` reads all files
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(("<", *_LIBRARIES)) and _OWN not in path and "site-packages" not in path:
            return path, frame.f_lineno
        frame = frame.f_back
    return "", 0


def _of_first(given: dict[str, Any]) -> WrapCall:
    """The arguments of ``FullyShardedDataParallel``."""
    mixed, mesh = given.get("mixed_precision"), given.get("device_mesh")
    strategy = getattr(given.get("sharding_strategy"), "name", "FULL_SHARD")
    group = given.get("process_group")
    if isinstance(group, (tuple, list)):
        group = group[0]
    if mesh is not None:
        ranks = mesh.size(mesh.ndim - 1)
    elif group is not None:
        ranks = torch.distributed.get_world_size(group)
    elif "HYBRID" in strategy:
        ranks = 0  # those of a node: FSDP makes the groups itself
    else:
        ranks = torch.distributed.get_world_size()
    policy = given.get("auto_wrap_policy")
    policy = getattr(policy, "func", policy)  # of a ``functools.partial``
    return WrapCall(
        version=FSDP1,
        shard_ranks=1 if strategy == "NO_SHARD" else ranks,
        compute=_dtype(getattr(mixed, "param_dtype", None)),
        reduce=_dtype(getattr(mixed, "reduce_dtype", None)),
        buffers=_dtype(getattr(mixed, "buffer_dtype", None)),
        offloads=bool(getattr(given.get("cpu_offload"), "offload_params", False)),
        policy="" if policy is None else getattr(policy, "__name__", type(policy).__name__),
    )


def _of_second(given: dict[str, Any]) -> WrapCall:
    """The arguments of ``fully_shard``."""
    mesh, mixed = given.get("mesh"), given.get("mp_policy")
    if mesh is None:
        ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    else:
        ranks = mesh.size(mesh.ndim - 1)
    return WrapCall(
        version=FSDP2,
        shard_ranks=0 if given.get("dp_mesh_dims") is not None else ranks,
        compute=_dtype(getattr(mixed, "param_dtype", None)),
        reduce=_dtype(getattr(mixed, "reduce_dtype", None)),
        offloads=type(given.get("offload_policy")).__name__ == "CPUOffloadPolicy",
    )


def _dtype(value: Any) -> str | None:
    return dtype_name(value) if isinstance(value, torch.dtype) else None


def _is_sharded(parameter: Any) -> bool:
    """Whether a unit inside has it already."""
    return hasattr(parameter, "_local_tensor") or isinstance(parameter, torch.distributed.fsdp.FlatParameter)

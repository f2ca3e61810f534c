"""What FSDP of torch asks of GPUs, on CPUs: device counts, checks of devices, copies to the host, and streams.

``sync_module_states`` asks for the current GPU and rejects weights on a CPU; the broadcast itself needs no GPU. The
hybrid strategies of FSDP 1 ask how many GPUs a node has. What FSDP 1 moves to the CPU, it takes for a copy, and frees
or overwrites the original; it waits for a stream, which a CPU has in name only. It refuses the CPU as the device of a
rank, which FSDP 2 takes by itself.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_SENTENCE = "FSDP shards over ranks of the CPU, with the arithmetic that it has on GPUs"
_ON_GPU = "_check_module_states_for_sync_module_states"  # raises for weights that are not on a GPU
_UNFLATTEN = "_unflatten_orig_param_states"


def install(ranks_of_node: int) -> None:
    """Let FSDP 1 do on a CPU what it does on a GPU."""
    from torch.distributed.fsdp import _init_utils, _optim_utils
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    torch.cpu.device_count = lambda: ranks_of_node
    if hasattr(_init_utils, _ON_GPU):
        setattr(_init_utils, _ON_GPU, lambda *_args, **_more: None)
    torch.cpu.Stream.synchronize = lambda _self: None  # type: ignore[attr-defined,unused-ignore]

    @around(FlatParamHandle, "prepare_gradient_for_backward")
    def prepared(prepare: Any, handle: Any) -> None:
        prepare(handle)
        if handle._offload_params and hasattr(handle.flat_param, "_saved_grad_shard"):  # noqa: SLF001
            del handle.flat_param._saved_grad_shard  # noqa: SLF001 - the last gradient, to which a GPU adds nothing

    if hasattr(_optim_utils, _UNFLATTEN):

        @around(_optim_utils, _UNFLATTEN)
        def unflattened(unflatten: Any, info: Any, states: Any, name: Any, *rest: Any, **more: Any) -> None:
            for state in states.values():
                state[name] = state[name].clone()
            unflatten(info, states, name, *rest, **more)

    @around(FlatParamHandle, "flat_param_to")
    def moved(move: Any, handle: Any, *args: Any, **kwargs: Any) -> None:
        handle.flat_param.data = handle.flat_param.data.clone()
        move(handle, *args, **kwargs)


def stand_in_of_no_memory() -> None:
    """Let FSDP 1 shard weights on torch's device without memory; whatever asks for their device gets the CPU."""
    from torch.distributed.fsdp import _init_utils
    from torch.distributed.fsdp._flat_param import FlatParamHandle

    _init_utils._get_compute_device = lambda *_args: torch.device("cpu")  # noqa: SLF001 - it has no public way
    FlatParamHandle.flat_param_to = lambda *_args, **_more: None


def stand_in_of_plugin(dataclasses: Any) -> None:
    """Let the plugin of Accelerate that sends weights to all ranks find a device: the CPU, while it is made."""
    name = "is_cuda_available"

    @around(dataclasses.FullyShardedDataParallelPlugin, "__post_init__")
    def made(make: Any, plugin: Any, *args: Any, **kwargs: Any) -> None:
        before = getattr(dataclasses, name, None), torch.cuda.current_device
        setattr(dataclasses, name, lambda *_args, **_more: True)
        torch.cuda.current_device = lambda: torch.device("cpu")
        try:
            make(plugin, *args, **kwargs)
        finally:
            setattr(dataclasses, name, before[0])
            torch.cuda.current_device = before[1]


def stand_in_of_fsdp(tell: Callable[[str], None], module: ModuleType) -> None:
    """``torch.distributed.fsdp.fully_sharded_data_parallel``: whatever device is named is the CPU."""
    sharded = module.FullyShardedDataParallel
    signature = inspect.signature(sharded.__init__)

    @around(sharded, "__init__")
    def on_cpu(make: Any, *args: Any, **kwargs: Any) -> None:
        bound = signature.bind(*args, **kwargs)
        if bound.arguments.get("device_id") != torch.device("cpu"):
            tell(_SENTENCE)
            bound.arguments["device_id"] = torch.device("cpu")
        make(*bound.args, **bound.kwargs)

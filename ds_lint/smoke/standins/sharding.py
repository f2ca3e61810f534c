"""FSDP on a machine without GPUs: FSDP 1 takes the CPU as the device of each rank, which it refuses by itself.

FSDP 2 takes the CPU when its mesh is of the CPU, or when torch has no accelerator.
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

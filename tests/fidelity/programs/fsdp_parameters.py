"""What FSDP raises over the parameters of a layer: the name of the exception for each case."""

from __future__ import annotations

import json
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard


def layer(stored: torch.dtype, *, is_frozen: bool) -> torch.nn.Module:
    """A layer with a weight that may not be trained, and another one that is."""
    module = torch.nn.Module()
    weight = torch.ones(8, 8).to(stored)
    module.weight = torch.nn.Parameter(weight, requires_grad=not is_frozen)
    module.adapter = torch.nn.Parameter(torch.ones(8, 8, dtype=torch.bfloat16), requires_grad=True)
    return module


def raised(wrap: Callable[[], object]) -> str | None:
    try:
        wrap()
    except Exception as error:
        return type(error).__name__
    return None


def first(module: torch.nn.Module, *, keeps_parameters: bool = True) -> Callable[[], object]:
    return lambda: FullyShardedDataParallel(module, use_orig_params=keeps_parameters, device_id=torch.device("cpu"))


def main() -> None:
    dist.init_process_group("gloo")
    mesh, joined = init_device_mesh("cpu", (dist.get_world_size(),)), torch.bfloat16
    cases = {
        "bytes, FSDP 1": first(layer(torch.uint8, is_frozen=True)),
        "bytes, FSDP 2": lambda: fully_shard(layer(torch.uint8, is_frozen=True), mesh=mesh),
        "bf16, FSDP 1": first(layer(joined, is_frozen=True)),
        "frozen, without the original parameters": first(layer(joined, is_frozen=True), keeps_parameters=False),
        "frozen, with the original parameters": first(layer(joined, is_frozen=True)),
    }
    print(json.dumps({name: raised(wrap) for name, wrap in cases.items()}))


if __name__ == "__main__":
    main()

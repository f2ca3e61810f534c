"""What scripts with FSDP do on ranks without GPUs.

The argument is a JSON object of texts by name. Each is run with its own names, of which ``folder`` is one to save to.
The answer has for each what it leaves in ``seen``, or the name of the exception. FSDP 1 takes its model for one on a
GPU unless it is given a device, so it is given the CPU; meshes of FSDP 2 are of the CPU anyway where there is no GPU.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.tensor import DTensor


def on_cpu(self: Any, *arguments: Any, **keywords: Any) -> None:
    made(self, *arguments, **{"device_id": torch.device("cpu"), **keywords})


def is_whole(layer: torch.nn.Linear) -> bool:
    """Whether a rank has every weight of a layer; some of them may lie in its own share."""
    return (
        not hasattr(layer.weight, "to_local")
        and layer.weight.numel() == layer.in_features * layer.out_features
        and layer.weight.untyped_storage().size() > 0
    )


def units(model: torch.nn.Module) -> list[int]:
    """Of the layers of a model, how many are whole while each of them runs; of a forward and a backward pass."""
    layers = [one for one in model.modules() if isinstance(one, torch.nn.Linear)]
    seen: list[int] = []
    for layer in layers:
        layer.register_forward_pre_hook(lambda *_: seen.append(sum(is_whole(one) for one in layers)))
    model(torch.ones(2, 8)).sum().backward()
    return seen


def own(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def elements(tensors: Iterable[torch.Tensor]) -> int:
    """How many elements of some tensors this rank has."""
    return sum(own(one).numel() for one in tensors)


def has_moved(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step changes any weight that this rank has."""
    shards = [own(one) for one in model.parameters()]
    before = [one.detach().clone() for one in shards]
    model(torch.ones(2, 8)).sum().backward()
    optimizer.step()
    return any(bool((now != then).any()) for now, then in zip(shards, before, strict=True))


def answered(text: str) -> Any:
    torch.manual_seed(0)
    names: dict[str, Any] = {"units": units, "has_moved": has_moved, "elements": elements}
    names |= {"mesh": mesh, "rank": dist.get_rank()}
    try:
        with tempfile.TemporaryDirectory() as folder:
            names["folder"] = folder
            exec(compile(text, "train.py", "exec"), names)  # noqa: S102 - a text of the test
    except Exception as error:
        return type(error).__name__
    return names.get("seen")


if __name__ == "__main__":
    logging.disable()
    warnings.simplefilter("ignore")
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    made = FullyShardedDataParallel.__init__
    FullyShardedDataParallel.__init__ = on_cpu
    print(json.dumps({name: answered(text) for name, text in json.loads(sys.argv[1]).items()}))

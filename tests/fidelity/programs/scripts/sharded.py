"""Trains small models with FSDP of torch side by side, each broken or set up in its own way: ``sharded.py KIND,KIND``.

What is broken in torch itself is broken while its own model is built or trained.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from torch.distributed.checkpoint import state_dict as state_dicts
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp import _flat_param as flat
from torch.distributed.fsdp._fully_shard import _fsdp_collectives as collectives
from torch.distributed.fsdp._fully_shard import _fsdp_param as rows
from torch.distributed.fsdp._fully_shard import _fsdp_param_group as groups
from torch.distributed.fsdp._fully_shard import _fsdp_state as states
from torch.distributed.fsdp.wrap import ModuleWrapPolicy, transformer_auto_wrap_policy
from torch.optim import adam

SIZE, WORDS = 24, 53
at_work = [""]  # the kind


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(SIZE)
        self.up = nn.Linear(SIZE, 3 * SIZE)
        self.down = nn.Linear(3 * SIZE, SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(SIZE, WORDS)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) * self.scale[0]
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


class Training:
    """One model; ``kind`` says what is broken in it, or how it is set up."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(self.rank if "seeds" in kind else 0)
        self.generator = torch.Generator().manual_seed(0 if "same samples" in kind else self.rank)
        self.model: Any = Net()
        if "tied" in kind:
            self.model.head.weight = self.model.embed.weight
        self.micro_steps = 1 if "one pass" in kind else 2
        if kind.startswith("1"):
            self.shard_first()
        else:
            self.shard_second()
        if not hasattr(self, "optimizer"):
            self.optimizer = self.optimizer_of()

    def optimizer_of(self) -> torch.optim.Optimizer:
        parameters: Any = list(self.model.parameters())
        if "half" in self.kind:
            parameters = parameters[: len(parameters) // 2]
        rate = 1e-3 * (2 if "rate of a rank" in self.kind and self.rank == self.ranks - 1 else 1)
        if "sgd" in self.kind:
            return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
        return torch.optim.AdamW(parameters, lr=rate, weight_decay=0.1)

    def shard_first(self) -> None:
        kind = self.kind
        policy: Any = ModuleWrapPolicy({Block})
        if "other class" in kind:
            policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={nn.TransformerEncoderLayer})
        strategy = next((one for one in ShardingStrategy if one.name in kind), ShardingStrategy.FULL_SHARD)
        given: dict[str, Any] = {"use_orig_params": "orig" in kind, "sharding_strategy": strategy}
        if "one unit" not in kind:
            given["auto_wrap_policy"] = policy
        if "bf16" in kind:
            given["mixed_precision"] = MixedPrecision(torch.bfloat16, torch.float32, torch.bfloat16)
        if "offload" in kind:
            given["cpu_offload"] = CPUOffload(offload_params=True)
        if "HYBRID" in kind:
            given["device_mesh"] = init_device_mesh(
                "cpu", (self.ranks // 2 or 1, 2), mesh_dim_names=("copies", "shards")
            )
        if "old optimizer" in kind:
            self.optimizer = self.optimizer_of()
        if "checkpointed" in kind:
            self.checkpoint_layers()
        self.model = FullyShardedDataParallel(self.model, device_id=torch.device("cpu"), **given)

    def shard_second(self) -> None:
        kind = self.kind
        given: dict[str, Any] = {}
        if "bf16" in kind:
            given["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        if "offload" in kind:
            given["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
        if "hybrid" in kind:
            given["mesh"] = init_device_mesh("cpu", (self.ranks // 2 or 1, 2), mesh_dim_names=("copies", "shards"))
        if "stays" in kind:
            given["reshard_after_forward"] = False
        if "pure" in kind:
            self.model = self.model.bfloat16()
        if "old optimizer" in kind:
            self.optimizer = self.optimizer_of()
        if "checkpointed" in kind:
            self.checkpoint_layers()
        for layer in self.model.layers if "one unit" not in kind else ():
            fully_shard(layer, **given)
        if "no root" not in kind:
            fully_shard(self.model, **given)

    def checkpoint_layers(self) -> None:
        wrappers.apply_activation_checkpointing(self.model, check_fn=lambda module: isinstance(module, Block))

    def step(self) -> float:
        kind, model = self.kind, self.model
        last = self.micro_steps - 1
        for micro in range(self.micro_steps):
            ids = torch.randint(0, WORDS, (2, 8), generator=self.generator)
            reduces = micro == last and "never reduced" not in kind
            with self.syncing(reduces=reduces or "each time" in kind):
                with torch.autocast("cpu", torch.bfloat16, enabled="autocast" in kind):
                    loss = nn.functional.cross_entropy(model(ids).float().flatten(0, 1), ids.flatten())
                if "infinite" in kind:
                    loss = loss * float("inf")
                (loss / self.micro_steps).backward()
        if "clipped" in kind:
            if kind.startswith("1") and "local" not in kind:
                model.clip_grad_norm_(0.05)
            else:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
        self.optimizer.step()
        if "not cleared" not in kind:
            self.optimizer.zero_grad()
        return float(loss)

    @contextlib.contextmanager
    def syncing(self, *, reduces: bool) -> Any:
        if self.kind.startswith("1"):
            with contextlib.nullcontext() if reduces else self.model.no_sync():
                yield
            return
        for module in self.model.modules():
            if hasattr(module, "set_requires_gradient_sync"):
                module.set_requires_gradient_sync(reduces, recurse=False)
        yield


# ------------------------------------------------------------------------------------------------ what torch does wrong


def replace(owner: Any, name: str, words: str, other: Any) -> None:
    """Call another function instead while a kind with these words is at work."""
    real = getattr(owner, name)

    @functools.wraps(real)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return other(real, *args, **kwargs) if words in at_work[0] else real(*args, **kwargs)

    setattr(owner, name, chosen)


def summed(real: Any, *args: Any, **kwargs: Any) -> Any:
    return None, None, dist.ReduceOp.SUM, dist.ReduceOp.SUM


def twice(real: Any, handle: Any, *args: Any, **kwargs: Any) -> Any:
    answer = real(handle, *args, **kwargs)
    if handle.flat_param.grad is not None:
        handle.flat_param.grad.mul_(0.5)
    return answer


def without_masters(real: Any, parameter: Any, policy: Any) -> Any:
    return real(parameter, MixedPrecisionPolicy())


def uncast(real: Any, state: Any, args: Any, kwargs: Any) -> Any:
    return args, kwargs


def other_reduction(real: Any, parameter: Any, policy: Any) -> Any:
    return real(parameter, MixedPrecisionPolicy(policy.param_dtype, policy.param_dtype))


def rounded(real: Any, parameter: Any) -> Any:
    answer = real(parameter)
    with torch.no_grad():
        whole = parameter._unsharded_param.data
        torch.autograd._unsafe_preserve_version_counter(whole).__enter__()
        whole.copy_(whole.bfloat16().float())
    return answer


def stale(real: Any, *args: Any, **kwargs: Any) -> Any:
    return {name: one * 1.001 if torch.is_tensor(one) else one for name, one in real(*args, **kwargs).items()}


def without_states(real: Any, found: Any, **kwargs: Any) -> Any:
    return real({"model": found["model"]}, **kwargs)


def plain(real: Any, wrapper: Any, *args: Any, **kwargs: Any) -> Any:
    return wrapper._checkpoint_wrapped_module(*args, **kwargs)


def gathered(real: Any, group: Any) -> Any:
    return None


def undecayed(real: Any, *args: Any, **kwargs: Any) -> Any:
    return real(*args, **{**kwargs, "weight_decay": 0.0})


def local_sum(real: Any, *args: Any, **kwargs: Any) -> Any:
    """Each rank keeps its own gradients."""
    output = kwargs.get("output_tensor", kwargs.get("output"))
    given = kwargs.get("input_tensor", kwargs.get("input"))
    output.copy_(given.view(dist.get_world_size(), -1)[dist.get_rank()])


def main() -> None:
    dist.init_process_group("gloo")
    replace(collectives, "_get_gradient_divide_factors", "summed", summed)
    replace(flat.FlatParamHandle, "prepare_gradient_for_optim", "halved", twice)
    replace(rows.FSDPParam, "init_dtype_attrs", "precision ignored", without_masters)
    replace(states.FSDPState, "_cast_forward_inputs", "precision ignored", uncast)
    replace(rows.FSDPParam, "init_dtype_attrs", "other reduction", other_reduction)
    replace(rows.FSDPParam, "init_unsharded_param", "rounded", rounded)
    replace(state_dicts, "get_model_state_dict", "stale", stale)
    replace(checkpoint, "load", "states forgotten", without_states)
    replace(wrappers.CheckpointWrapper, "forward", "not recomputed", plain)
    replace(groups.FSDPParamGroup, "reshard", "stays gathered", gathered)
    replace(adam, "adam", "decay ignored", undecayed)
    for name in ("reduce_scatter_tensor", "reduce_scatter_single"):
        if hasattr(dist, name):
            replace(dist, name, "own gradients", local_sum)
    trainings = []
    for kind in sys.argv[1].split(","):
        at_work[0] = kind
        trainings.append(Training(kind))
    for number in range(int(os.environ.get("STEPS", "40"))):
        for training in trainings:
            at_work[0] = training.kind
            loss = training.step()
            if training.rank == 0:
                print(number, training.kind, f"{loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

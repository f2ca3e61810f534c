"""Train with a DeepSpeed config, or with the FSDP that it is converted into: ``converted.py JOB FOLDER``.

The job is a JSON object: ``config`` for DeepSpeed, or ``environment``, which ``accelerate launch`` makes of a YAML for
its ranks. GPUs are pretended: Accelerate takes the CPU for one. The answer has the losses of this rank, how many
elements it holds, and their dtypes.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from answering import answer

SIZE, LAYERS, STEPS, CLIPPING, LEARNING_RATE = 12, 2, 3, 0.5, 1e-2

warnings.simplefilter("ignore")
job, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
os.environ.update(job.get("environment", {}))
seen: dict[str, Any] = {}  # while it trains
rank = int(os.environ["RANK"])


class Layer(torch.nn.Module):
    """What FSDP wraps, and ZeRO does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(SIZE, SIZE, bias=False)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        seen["computes_in"] = str(self.inner.weight.dtype)
        seen["autocast"] = torch.is_autocast_enabled("cpu")
        return inputs + torch.tanh(self.inner(inputs))


class Model(torch.nn.Module):
    """Layers of one class, which a model names as those of transformers do."""

    _no_split_modules = ("Layer",)

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(Layer() for _ in range(LAYERS))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs


def local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank holds of a tensor."""
    return getattr(tensor, "_local_tensor", tensor)


def states_of(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What this rank's optimizer holds: the first moments, and what it updates."""
    states = {one: state["exp_avg"] for one, state in optimizer.state.items() if "exp_avg" in state}
    return {
        "moments": sum(local(moment).numel() for moment in states.values()),
        "states_in": sorted({str(tensor.dtype) for pair in states.items() for tensor in pair}),
    }


torch.manual_seed(rank if job.get("weights_differ") else 0)
model = Model().to(getattr(torch, job.get("dtype", "float32")))
total = sum(parameter.numel() for parameter in model.parameters())
torch.manual_seed(100 + rank)
batches = [torch.randn(2, SIZE) for _ in range(STEPS)]
losses: list[float] = []


def with_deepspeed() -> dict[str, Any]:
    import deepspeed

    from ds_lint.smoke.standins import ops

    ops.install(builds=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=job["config"])
    parameters = list(engine.module.parameters())
    if job.get("accumulates"):
        engine.backward(engine(batches[0]).pow(2).mean())
        seen["whole_gradients"] = sum(one.grad.numel() for one in parameters if one.grad is not None)
        engine.step()
    for inputs in batches:
        loss = engine(inputs.to(parameters[0].dtype)).float().pow(2).mean()
        engine.backward(loss)
        engine.step()
        losses.append(float(loss))
    stage = engine.zero_optimization_stage()
    seen["parameters"] = sum((one.ds_tensor if stage == 3 else one).numel() for one in parameters)
    if job.get("saves"):
        engine.save_16bit_model(str(folder), "model.bin")
        saved = torch.load(folder / "model.bin") if rank == 0 else {}
        seen["saves_in"] = sorted({str(one.dtype) for one in saved.values()})
    return states_of(getattr(engine.optimizer, "optimizer", engine.optimizer))


def pretend_gpus() -> None:
    """Let Accelerate take the CPU for a GPU."""
    import accelerate.utils.dataclasses as plugins
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType
    from torch.distributed.fsdp import _init_utils

    PartialState._prepare_backend = lambda self, cpu, sagemaker, backend: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))
    plugins.is_cuda_available = lambda: True
    torch.cuda.current_device = lambda: torch.device("cpu")
    _init_utils._check_module_states_for_sync_module_states = lambda states: None
    torch.nn.parallel.DistributedDataParallel = OnCpu


class OnCpu(torch.nn.parallel.DistributedDataParallel):
    """Without the GPU that Accelerate names."""

    def __init__(self, module: torch.nn.Module, **options: Any) -> None:
        super().__init__(module, **{**options, "device_ids": None, "output_device": None})


def whole_gradients(wrapped: torch.nn.Module) -> int:
    """The elements of the gradients that this rank keeps whole until the last micro batch."""
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel

    if isinstance(wrapped, FSDPModule):
        units = [module for module in wrapped.modules() if isinstance(module, FSDPModule)]
        groups = [group for unit in units if (group := unit._get_fsdp_state()._fsdp_param_group) is not None]
        parameters = [one for group in groups for one in group.fsdp_params]
        kept = [(one.unsharded_accumulated_grad, one._unsharded_param.grad) for one in parameters]
        return sum(next((gradient.numel() for gradient in both if gradient is not None), 0) for both in kept)
    flat = [module._flat_param for module in FullyShardedDataParallel.fsdp_modules(wrapped) if module._has_params]
    return sum(one.grad.numel() for one in flat if one.grad is not None)


def whole_weights(accelerator: Any, wrapped: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What ``get_state_dict`` gives; that of FSDP 1 without the copy into pinned memory, which needs a GPU."""
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

    if not isinstance(wrapped, FullyShardedDataParallel):
        return accelerator.get_state_dict(wrapped)
    here = FullStateDictConfig(offload_to_cpu=False, rank0_only=False)
    with FullyShardedDataParallel.state_dict_type(wrapped, StateDictType.FULL_STATE_DICT, here):
        return wrapped.state_dict()


def with_accelerate() -> dict[str, Any]:
    pretend_gpus()
    from accelerate import Accelerator

    accelerator = Accelerator()
    wrapped, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE))
    dtype = next(wrapped.parameters()).dtype
    layers = [module for module in wrapped.modules() if isinstance(module, Layer)]
    if job.get("accumulates"):
        with accelerator.no_sync(wrapped):
            accelerator.backward(wrapped(batches[0].to(dtype)).float().pow(2).mean())
        seen["whole_gradients"] = whole_gradients(wrapped)
        optimizer.zero_grad()
    for inputs in batches:
        outputs = wrapped(inputs.to(dtype))
        seen["between"] = sum(local(layer.inner.weight).numel() for layer in layers)
        loss = outputs.float().pow(2).mean()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(wrapped.parameters(), CLIPPING)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    seen["type"] = accelerator.distributed_type.value
    seen["parameters"] = sum(local(parameter).numel() for parameter in wrapped.parameters())
    if job.get("saves"):
        saved = whole_weights(accelerator, wrapped)
        seen["saves_in"] = sorted({str(one.dtype) for one in saved.values()})
    return states_of(optimizer.optimizer)


states = with_deepspeed() if "config" in job else with_accelerate()
answer(**states, **seen, losses=losses, total=total)

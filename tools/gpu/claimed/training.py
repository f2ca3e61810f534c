"""Trains a small model with DeepSpeed, and looks at what the run holds, what it raises, and how far a step goes."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import math
import multiprocessing
import os
import traceback
from typing import TYPE_CHECKING, Any

import torch

from tools.gpu.claimed import kernels, models

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.gpu.setting import Result

INITIALIZE, COMPILE, FORWARD, BACKWARD, STEP = "initialize", "compile", "forward", "backward", "step"
# Where the wrappers of DeepSpeed keep the weights that the optimizer steps, the first that there is.
_MASTERS = (
    "single_partition_of_fp32_groups", "fp32_partitioned_groups_flat", "fp32_groups_flat_partition",
    "fp32_groups_flat", "fp32_groups",
)  # fmt: skip
# Other memory of the host, which is page-locked or not.
_BUFFERS = ("grad_partitions_flat_buffer", "param_groups_fp16_flat_cpu_memory")
_OF_THE_MACHINE = ("OutOfMemoryError", "DistNetworkError")
_LONGEST = 500  # characters of a message


def train(
    device: str,
    config: Result,
    *,
    model: str = "llama",
    steps: int = 2,
    needed: Sequence[str] = (),
    factor: float = 1.0,
    inputs: str = "float32",
    compiles: bool = False,
    starts_processes: bool = False,
) -> Result:
    """A run of a config, from deepspeed.initialize to its last step, or to what it raises.

    Processes that the libraries start get copies of the ops: they ask ninja, which might build what others have loaded.
    """
    kernels.provide(device, needed)
    if starts_processes and device != "cpu":
        kernels.copy(needed)
    task = models.make(model, device, factor=factor, dtype=inputs)
    return watched(device, task, config, steps=steps, compiles=compiles)


def watched(device: str, task: models.Task, config: Result, *, steps: int, compiles: bool = False) -> Result:
    """The same for a model that is there."""
    found: Result = {"raised": None, "losses": [], "moved": []}
    place = [INITIALIZE, 0]
    engine: Any = None
    with dtypes_of_layers(task.model) as computed, _dtypes_of_gradients(task.model) as gradients:
        try:
            engine = initialized(task.model, config)
            found["optimizer"] = [type(engine.optimizer).__name__, type(engine.basic_optimizer).__name__]
            found["processes"] = len(multiprocessing.active_children())
            if compiles:
                place[0] = COMPILE
                engine.compile(backend="eager")
            _reset_peak(device)
            for number in range(1, steps + 1):
                before = [tensor.detach().clone() for tensor in masters(engine)]
                place[:] = FORWARD, number
                loss = task.loss(engine)
                found["losses"].append(_number(loss))
                place[0] = BACKWARD
                engine.backward(loss)
                place[0] = STEP
                engine.step()
                found["moved"].append(_distance(before, masters(engine)))
            found["peak"] = _peak(device)
            found.update(held(engine))
        except Exception as error:  # whatever the libraries raise is what is observed
            found["raised"] = exception_record(error, *place)
            if _is_ours(error):
                raise
        found["computed"], found["gradients"] = sorted(computed), sorted(gradients)
    found["ops"] = kernels.used()
    if engine is not None:
        with contextlib.suppress(Exception):  # what a broken engine raises at its end does not count
            engine.destroy()
    return found


def initialized(model: Any, config: Result) -> Any:
    """The engine of a model."""
    import deepspeed

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    engine, *_ = deepspeed.initialize(model=model, model_parameters=trained, config=copy.deepcopy(config))
    return engine


def exception_record(error: BaseException, stage: Any, step: Any) -> Result:
    """An exception, and where in the run it came."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    message = f"{error}"[:_LONGEST]
    return {"stage": stage, "step": step, "type": type(error).__name__, "message": message, "where": where}


def _is_ours(error: BaseException) -> bool:
    """Whether the run says nothing about the libraries: something is missing, or the machine is at its limits."""
    return (
        isinstance(error, (kernels.OpNotBuilt, ModuleNotFoundError))
        or getattr(error, "cause", None) == "stand-in"
        or type(error).__name__ in _OF_THE_MACHINE
    )


def masters(engine: Any) -> list[Any]:
    """The tensors that the optimizer steps: the partitions in 32 bit where there are some, else the parameters."""
    for name in _MASTERS:
        if getattr(engine.optimizer, name, None):
            return [one for one in _flat(getattr(engine.optimizer, name)) if torch.is_tensor(one)]
    return [partition_of(parameter) for parameter in engine.module.parameters() if parameter.requires_grad]


def held(engine: Any) -> Result:
    """What the engine holds after its steps, and a fingerprint of the weights."""
    parameters = [partition_of(parameter) for parameter in engine.module.parameters()]
    states = [one for of_one in engine.basic_optimizer.state.values() for one in _flat(of_one.values())]
    digest = hashlib.sha256()
    for tensor in masters(engine):
        digest.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return {
        "parameters": described(parameters),
        "master": described(masters(engine)),
        "states": described(one for one in states if torch.is_tensor(one) and one.numel() > 1),
        "digest": digest.hexdigest(),
        "buffers": {name: described(found) for name in _BUFFERS if (found := _attribute(engine, name))},
        "files": sorted(name for _, _, names in os.walk("nvme") for name in names),
    }


def _attribute(engine: Any, name: str) -> list[Any]:
    """The tensors under a name of the optimizer; none where it has no such name."""
    found = getattr(engine.optimizer, name, None)
    return [found] if torch.is_tensor(found) else list(found or [])


def partition_of(parameter: Any) -> Any:
    """The data of a parameter that this rank holds: at stage 3 another tensor has it."""
    return getattr(parameter, "ds_tensor", parameter).data


def described(tensors: Iterable[Any]) -> Result:
    """Dtypes and devices of tensors, and how many of them lie in page-locked memory."""
    given = list(tensors)
    return {
        "count": len(given),
        "elements": sum(one.numel() for one in given),
        "dtypes": sorted({str(one.dtype).removeprefix("torch.") for one in given}),
        "devices": sorted({one.device.type for one in given}),
        "pinned": sum(one.device.type == "cpu" and one.is_pinned() for one in given),
    }


@contextlib.contextmanager
def dtypes_of_layers(model: Any) -> Iterator[set[str]]:
    """The dtypes in which the layers compute."""
    found: set[str] = set()
    hooks = [
        layer.register_forward_hook(lambda _layer, _data, output: found.add(str(output.dtype).removeprefix("torch.")))
        for layer in model.modules()
        if isinstance(layer, torch.nn.Linear)
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def _dtypes_of_gradients(model: Any) -> Iterator[set[str]]:
    """The dtypes of the gradients as the backward pass computes them."""
    found: set[str] = set()
    hooks = [
        parameter.register_hook(lambda gradient: found.add(str(gradient.dtype).removeprefix("torch.")))
        for parameter in model.parameters()
        if parameter.requires_grad
    ]
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def _flat(nested: Any) -> Iterator[Any]:
    for one in nested:
        if isinstance(one, (list, tuple)):
            yield from _flat(one)
        else:
            yield one


def _distance(before: list[Any], after: list[Any]) -> float:
    """How far the weight moved that moved farthest."""
    found = [
        float((new - old).abs().max()) for old, new in zip(before, after, strict=True) if old.numel() and new.numel()
    ]
    return max(found, default=0.0)


def _number(loss: Any) -> float | str:
    """A loss, as JSON can have it."""
    value = float(loss.detach())
    return value if math.isfinite(value) else str(value)


def _reset_peak(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()


def _peak(device: str) -> int | None:
    return None if device == "cpu" else int(torch.cuda.max_memory_allocated())

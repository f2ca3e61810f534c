"""What a setting costs: whether the CPU waits for the GPU, and how long a step takes."""

from __future__ import annotations

import functools
import os
import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

from tools.gpu.claimed import kernels, models, training

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tools.gpu.setting import Result

_BEFORE, _STEPS = 4, 7  # steps that are not measured, and those that are
_THREADS = 8  # of Adam on the CPU


def waits(device: str, config: Result) -> Result:
    """Whether the GPU has nothing left to do when forward, backward and step return, although each began a long job.

    The throughput timer of DeepSpeed takes part from its third step on.
    """
    kernels.provide(device)
    task = models.make("slow", device)
    engine = training.initialized(task.model, config)
    found: Result = {}
    for number in range(_BEFORE + 1):
        is_last = number == _BEFORE
        loss = _idle_after(device, lambda: task.loss(engine), found if is_last else {}, "forward")
        _idle_after(device, functools.partial(engine.backward, loss), found if is_last else {}, "backward")
        _idle_after(device, lambda: _step(device, engine), found if is_last else {}, "step")
    return found


def _step(device: str, engine: Any) -> None:
    models.Sleep.now(torch.empty(0, device=device))
    engine.step()


def _idle_after(device: str, call: Callable[[], Any], found: Result, name: str) -> Any:
    if device != "cpu":
        torch.cuda.synchronize()
    result = call()
    found[name] = device == "cpu" or bool(torch.cuda.current_stream().query())
    return result


def pace(device: str, config: Result, *, width: int, needed: Sequence[str] = (), inputs: str = "float32") -> Result:
    """How long a step of a model of matrices takes."""
    os.environ["OMP_NUM_THREADS"] = str(_THREADS)  # an op of the CPU may bring an OpenMP of its own
    torch.set_num_threads(_THREADS)
    kernels.provide(device, needed)
    task = models.make("large", device, factor=width if device != "cpu" else models.WIDTH, dtype=inputs)
    engine = training.initialized(task.model, config)
    seconds = []
    for _ in range(_BEFORE + _STEPS):
        began = time.monotonic()
        engine.backward(task.loss(engine))
        engine.step()
        if device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.monotonic() - began)
    measured = seconds[_BEFORE:]
    names = [type(engine.optimizer).__name__, type(engine.basic_optimizer).__name__]
    parameters = sum(getattr(one, "ds_numel", one.numel()) for one in task.model.parameters())
    engine.destroy()
    return {
        "milliseconds": round(1e3 * statistics.median(measured), 3),
        "each": [round(1e3 * one, 3) for one in measured],
        "optimizer": names,
        "parameters": parameters,
        "threads": _THREADS,
        "ops": kernels.used(),
    }

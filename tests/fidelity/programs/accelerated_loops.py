"""What loops of Accelerate make of the weights: ``accelerated_loops.py CASES``, a JSON list of loop, config, keywords.

The gradient of batch n is n, and SGD of rate 1 takes it off a weight that begins at 0. The answer has the weight after
each of eight batches, or what was raised.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from answering import answer

os.environ.update(ACCELERATE_USE_DEEPSPEED="true", ACCELERATE_TORCH_DEVICE="cpu")
os.environ.update(LOCAL_SIZE="1", LOCAL_WORLD_SIZE="1", CROSS_RANK="0", CROSS_SIZE="1")  # else it looks for one of MPI
import accelerate
from accelerate.state import AcceleratorState, GradientState

EVERY = 4


def plain(run: Any, loss: torch.Tensor, _: int) -> None:
    run.accelerator.backward(loss)
    run.optimizer.step()
    run.optimizer.zero_grad()


def rare(run: Any, loss: torch.Tensor, batch: int) -> None:
    run.accelerator.backward(loss)
    if batch % EVERY == 0:
        run.optimizer.step()
        run.optimizer.zero_grad()


def clipped(run: Any, loss: torch.Tensor, _: int) -> None:
    run.accelerator.backward(loss)
    run.accelerator.clip_grad_norm_(run.model.parameters(), 0.5)
    run.optimizer.step()


def clipped_by_torch(run: Any, loss: torch.Tensor, _: int) -> None:
    run.accelerator.backward(loss)
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), 0.5)
    run.optimizer.step()


def of_torch(run: Any, loss: torch.Tensor, _: int) -> None:
    loss.backward()
    run.optimizer.step()
    run.optimizer.zero_grad()


LOOPS: dict[str, Callable[[Any, torch.Tensor, int], None]] = {
    one.__name__: one for one in (plain, rare, clipped, clipped_by_torch, of_torch)
}


class Run:
    """An accelerator, with what it has prepared."""

    def __init__(self, config: dict[str, Any], keywords: dict[str, Any]) -> None:
        AcceleratorState._reset_state(reset_partial_state=True)
        GradientState._reset_state()
        whole = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 0.0, "zero_optimization": {"stage": 2}}
        plugin = accelerate.DeepSpeedPlugin(hf_ds_config={**whole, **config})
        self.accelerator = accelerate.Accelerator(deepspeed_plugin=plugin, **keywords)
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        loader = torch.utils.data.DataLoader([torch.full((1,), float(n)) for n in range(1, 9)], batch_size=1)
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), lr=1.0), loader
        )


def ran(loop: str, config: dict[str, Any], keywords: dict[str, Any]) -> list[float] | str:
    run, weights = Run(config, keywords), []
    name, _, inside = loop.partition(" in ")
    try:
        for batch, data in enumerate(run.loader, 1):
            if inside:
                with run.accelerator.accumulate(run.model):
                    LOOPS[name](run, run.model(data).sum(), batch)
            else:
                LOOPS[name](run, run.model(data).sum(), batch)
            weights.append(round(float(run.model.module.weight.detach()), 4))
    except RuntimeError as error:
        return str(error)
    return weights


answer(weights=[ran(*case) for case in json.loads(sys.argv[1])])

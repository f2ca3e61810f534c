"""What loops make of the weights: ``engine_loops.py CASES``, a JSON list of loop, stage and accumulation steps.

The gradient of batch n is n, and SGD of rate 1 takes it off a weight that begins at 0. The answer has the weight after
each of eight batches, or what was raised.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import deepspeed
import torch
from answering import answer

EVERY = 4


def made(stage: int, steps: int) -> Any:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": steps,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": stage, "stage3_param_persistence_threshold": 0},
    }
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1.0), config=config)
    return engine


def weight(engine: Any) -> float:
    parameter = engine.module.weight
    if not hasattr(parameter, "ds_id"):
        return float(parameter.detach())
    with deepspeed.zero.GatheredParameters([parameter]):
        return float(parameter.detach())


def plain(engine: Any, loss: torch.Tensor, _: int) -> None:
    engine.backward(loss)
    engine.step()


def rare(engine: Any, loss: torch.Tensor, batch: int) -> None:
    engine.backward(loss)
    if batch % EVERY == 0:
        engine.step()


def at_boundary(engine: Any, loss: torch.Tensor, _: int) -> None:
    engine.backward(loss)
    if engine.is_gradient_accumulation_boundary():
        engine.step()


def divided(engine: Any, loss: torch.Tensor, _: int) -> None:
    engine.backward(loss / EVERY)
    engine.step()


def clipped(engine: Any, loss: torch.Tensor, _: int) -> None:
    engine.backward(loss)
    torch.nn.utils.clip_grad_norm_(engine.parameters(), 0.5)
    engine.step()


def of_torch(engine: Any, loss: torch.Tensor, _: int) -> None:
    loss.backward()
    engine.step()


LOOPS: dict[str, Callable[[Any, torch.Tensor, int], None]] = {
    one.__name__: one for one in (plain, rare, at_boundary, divided, clipped, of_torch)
}


def ran(loop: str, stage: int, steps: int) -> list[float] | str:
    engine, weights = made(stage, steps), []
    try:
        for batch in range(1, 9):
            LOOPS[loop](engine, engine(torch.full((1, 1), float(batch))).sum(), batch)
            weights.append(round(weight(engine), 4))
    except RuntimeError as error:
        return str(error)
    return weights


answer(weights=[ran(*case) for case in json.loads(sys.argv[1])])

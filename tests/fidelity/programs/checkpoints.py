"""Save a checkpoint after some steps, or load one: ``checkpoints.py save|load FOLDER CONFIG STEPS``, CONFIG in JSON."""

from __future__ import annotations

import json
import sys

import deepspeed
import torch
from answering import answer

what, folder, text, steps = sys.argv[1:]
config = json.loads(text)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
dtype = torch.bfloat16 if "bf16" in config else torch.float32


def weights() -> list[float]:
    """The sum of each parameter."""
    with deepspeed.zero.GatheredParameters(list(model.parameters()), enabled=config["zero_optimization"]["stage"] == 3):
        return [float(parameter.detach().float().sum()) for parameter in model.parameters()]


path = None
if what == "load":
    path, _ = engine.load_checkpoint(folder)
for step in range(int(steps)):
    torch.manual_seed(step + 10 * torch.distributed.get_rank())
    engine.backward(engine(torch.randn(1, 16, dtype=dtype)).float().pow(2).mean())
    engine.step()
if what == "save":
    engine.save_checkpoint(folder)
answer(path=path, weights=weights())

"""The steps that Adam counts more with a checkpoint of three steps than in a new engine: 3 if it is restored.

Argument: the config as JSON. Both engines take one step before their counters are compared.
"""

import json
import sys
import tempfile

import deepspeed
import torch
from torch import nn

WRITTEN = json.loads(sys.argv[1])
DTYPE = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32


def new_engine() -> deepspeed.DeepSpeedEngine:
    """An engine on the same weights every time."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8, bias=False).to(DTYPE)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
        **WRITTEN,
    }
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]


def train(engine: deepspeed.DeepSpeedEngine, steps: int) -> None:
    """Take so many optimizer steps."""
    for _ in range(steps):
        engine.backward(engine(torch.ones(1, 8, dtype=DTYPE)).float().sum())
        engine.step()


def counted(engine: deepspeed.DeepSpeedEngine) -> float:
    """What Adam has counted after one step more."""
    train(engine, 1)
    states = getattr(engine.optimizer, "optimizer", engine.optimizer).state
    return max(float(state["step"]) for state in states.values())


deepspeed.init_distributed("gloo")
with tempfile.TemporaryDirectory() as folder:
    saved = new_engine()
    train(saved, 3)
    saved.save_checkpoint(folder, tag="tag")
    loaded = new_engine()
    path, _ = loaded.load_checkpoint(folder, tag="tag")
assert path, "load_checkpoint found nothing"
print(f"{counted(loaded) - counted(new_engine()):.3f}")

"""`completes` where the scheduler of a config answers `get_last_lr`, which the Trainer calls to log the rate.

Argument: the `scheduler` section as JSON.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4, bias=False)
deepspeed.init_distributed("gloo")
engine, _, _, scheduler = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
        "scheduler": json.loads(sys.argv[1]),
        "zero_optimization": {"stage": 1},
    },
)
engine.backward(engine(torch.ones(1, 4)).sum())
engine.step()
assert len(scheduler.get_last_lr()) == 1
print("completes")

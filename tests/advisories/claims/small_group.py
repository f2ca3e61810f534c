"""Prints `completes` if two ranks step with a parameter group that is too small for each of them to have a part of it.

Argument: the config as JSON. The second group is a single number, so that one rank's partition of it is padding.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

WRITTEN = json.loads(sys.argv[1])

torch.manual_seed(0)
model = nn.Linear(16, 1)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD([{"params": [model.weight]}, {"params": [model.bias]}], lr=0.1),
    config={"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True, **WRITTEN},
)
engine.backward(engine(torch.randn(2, 16)).pow(2).mean())
engine.step()
print("completes")

"""What one of the two `betas` of Adam lacks to 1 after the first step, which a schedule may have changed.

Arguments: the `scheduler` section as JSON, the `betas` of the optimizer as JSON, and which of them (0 or 1).
"""

import json
import sys

import deepspeed
import torch
from torch import nn

SCHEDULER, BETAS, WHICH = json.loads(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])

torch.manual_seed(0)
model = nn.Linear(4, 4, bias=False)
deepspeed.init_distributed("gloo")
engine, optimizer, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "betas": BETAS, "torch_adam": True}},
        "scheduler": SCHEDULER,
        "zero_optimization": {"stage": 1},
    },
)
engine.backward(engine(torch.ones(1, 4)).sum())
engine.step()
print(f"{1 - float(optimizer.param_groups[0]['betas'][WHICH]):.3f}")

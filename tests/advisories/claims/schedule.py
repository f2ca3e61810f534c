"""The learning rate that an optimizer step runs with, in one parameter group.

Arguments: the `scheduler` section as JSON, the rates of the parameter groups as JSON, the step (the first is 1) and
the group (the first is 0). SGD on a matrix per group at ZeRO stage 1, with which old releases run on CPU; the rate is
read just before that step.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

SCHEDULER, RATES = json.loads(sys.argv[1]), json.loads(sys.argv[2])
STEP, GROUP = int(sys.argv[3]), int(sys.argv[4])

torch.manual_seed(0)
model = nn.Sequential(*(nn.Linear(4, 4, bias=False) for _ in RATES))
deepspeed.init_distributed("gloo")
engine, optimizer, *_ = deepspeed.initialize(
    model=model,
    model_parameters=[
        {"params": list(layer.parameters()), "lr": rate} for layer, rate in zip(model, RATES, strict=True)
    ],
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": RATES[0]}},
        "scheduler": SCHEDULER,
        "zero_optimization": {"stage": 1},
        "zero_allow_untested_optimizer": True,
    },
)
for _ in range(STEP - 1):
    engine.backward(engine(torch.zeros(1, 4)).sum())
    engine.step()
print(f"{float(optimizer.param_groups[GROUP]['lr']):.3f}")

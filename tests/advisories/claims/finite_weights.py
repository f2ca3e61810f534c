"""The share of the weights that are finite two good steps after a step whose gradient is infinite.

Argument: the config as JSON. The model is one matrix; the sample of the first step holds an infinity.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

WRITTEN = json.loads(sys.argv[1])

torch.manual_seed(0)
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32
model = nn.Linear(8, 8, bias=False).to(dtype)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
        **WRITTEN,
    },
)
for step in range(3):
    sample = torch.ones(1, 8, dtype=dtype)
    if step == 0:
        sample[0, 3] = float("inf")
    engine.backward(engine(sample).sum())
    engine.step()
weights = torch.cat([one.detach().float().flatten() for one in engine.module.parameters()])
print(f"{float(weights.isfinite().float().mean()):.3f}")

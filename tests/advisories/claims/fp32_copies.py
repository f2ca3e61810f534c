"""The elements of fp32 that the optimizer without ZeRO holds, over the elements that are trained: 1 is right.

Arguments: the config as JSON. The model has two layers of equal size, and the first is frozen.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

WRITTEN = json.loads(sys.argv[1])
model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)).bfloat16()
model[0].requires_grad_(False)
config = {
    "train_micro_batch_size_per_gpu": 2,
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    **WRITTEN,
}
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
held = sum(one.numel() for group in engine.optimizer.optimizer.param_groups for one in group["params"])
dtypes = {one.dtype for group in engine.optimizer.optimizer.param_groups for one in group["params"]}
assert dtypes == {torch.float32}, dtypes
print(f"{held / model[1].weight.numel():.3f}")

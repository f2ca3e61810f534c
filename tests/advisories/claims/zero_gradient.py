"""Prints `completes` if an optimizer step with a gradient of zero, as of a batch without labels, does not raise.

Argument: the config as JSON.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

WRITTEN = json.loads(sys.argv[1])

torch.manual_seed(0)
model = nn.Linear(16, 4, bias=False).to(torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    config={"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True, **WRITTEN},
)
loss = engine(torch.randn(2, 16, dtype=model.weight.dtype)).pow(2).mean() * 0
engine.backward(loss)
engine.step()
print("completes")

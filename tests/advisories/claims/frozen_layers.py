"""Whether a model with frozen layers trains with the optimizer of a config: `completes`, or the error.

Arguments: the config as JSON and the parameters that train, as a pattern of their names: the others are frozen.
"""

import json
import re
import sys

import deepspeed
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.Linear(16, 4))
for name, parameter in model.named_parameters():
    parameter.requires_grad = bool(re.search(sys.argv[2], name))
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": True},
        **json.loads(sys.argv[1]),
    },
)
for _ in range(2):
    engine.backward(engine(torch.randn(1, 16).bfloat16()).float().pow(2).mean())
    engine.step()
print("completes")

"""How many of eight entries of an fp32 buffer differ after the engine was built: 0 where buffers keep their dtype.

Argument: the config as JSON. The buffer holds the inverse frequencies of rotary positions, which bf16 and fp16 round.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

FREQUENCIES = 10000.0 ** (-(torch.arange(8) + 0.5) / 8)

torch.manual_seed(0)
model = nn.Linear(16, 16)
model.register_buffer("inv_freq", FREQUENCIES.clone(), persistent=False)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        **json.loads(sys.argv[1]),
    },
)
print(f"{int((engine.module.inv_freq.float() != FREQUENCIES).sum()):.3f}")

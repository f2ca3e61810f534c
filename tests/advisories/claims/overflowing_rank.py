"""How many of two ranks skip a step whose gradient overflows in the partition of one rank alone: 2 where they agree.

Argument: the config as JSON. The first layer, which is the partition of rank 0, gets an infinite gradient. The CPU is
told to take fp16, which torch computes there although the accelerator of DeepSpeed says no. Collectives give up after
15 seconds.
"""

import json
import sys
from datetime import timedelta

import deepspeed
import torch
import torch.distributed
from deepspeed.accelerator import get_accelerator
from torch import nn

type(get_accelerator()).is_fp16_supported = lambda _: True
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)).half()
deepspeed.init_distributed("gloo", timeout=timedelta(seconds=15))
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": 0.01}},
        "zero_allow_untested_optimizer": True,
        "fp16": {"enabled": True, "initial_scale_power": 4, "hysteresis": 1},
        **json.loads(sys.argv[1]),
    },
)
model[0].weight.register_hook(lambda gradient: gradient * float("inf"))
engine.backward(engine(torch.ones(1, 16).half()).float().sum())
engine.step()
skipped = torch.tensor([float(engine.skipped_steps)])
torch.distributed.all_reduce(skipped)
print(f"{skipped.item():.3f}")

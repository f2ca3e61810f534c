"""The power of two that the dynamic loss scale starts at.

Argument: the config as JSON. The engine is made and not trained. The CPU is told to take fp16, which torch computes
there although DeepSpeed's accelerator may say no.
"""

import json
import math
import sys

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from torch import nn

type(get_accelerator()).is_fp16_supported = lambda self: True
torch.manual_seed(0)
model = nn.Linear(8, 8, bias=False).half()
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
        **json.loads(sys.argv[1]),
    },
)
print(f"{math.log2(engine.optimizer.loss_scale):.3f}")

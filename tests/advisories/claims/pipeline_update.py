"""How far a pipeline's weights move in a step over what its gradient asks for: 1 where it trains, 0 where nothing does.

Argument: the config as JSON. One stage on one rank, four micro steps of the same samples, SGD.
"""

import json
import sys

import deepspeed
import torch
from deepspeed.pipe import PipelineModule
from torch import nn

WRITTEN = json.loads(sys.argv[1])
RATE = 1.0

torch.manual_seed(0)
deepspeed.init_distributed("gloo")
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32
layer = nn.Linear(8, 4, bias=False).to(dtype)
sample, target = torch.randn(2, 8, dtype=dtype), torch.randn(2, 4, dtype=dtype)
before = layer.weight.detach().float().clone().requires_grad_()
(gradient,) = torch.autograd.grad(nn.functional.mse_loss(sample.float() @ before.T, target.float()), before)
model = PipelineModule(layers=[layer], num_stages=1, loss_fn=nn.functional.mse_loss)
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=RATE),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 4,
        "zero_allow_untested_optimizer": True,
        **WRITTEN,
    },
)
engine.train_batch(iter([(sample, target)] * 4))
moved = (before - next(engine.module.parameters()).float()).detach()
print(f"{float(moved.flatten() @ gradient.flatten() / (RATE * gradient.norm() ** 2)):.3f}")

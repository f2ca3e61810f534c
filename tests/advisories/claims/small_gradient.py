"""The length of an update over that of the gradient step, where fp16 cannot hold the gradient: 1 with loss scaling.

Argument: the config as JSON. fp32 weights, SGD, the largest of three updates (the first ones may be skipped while the
loss scale is found); the loss is so small that its gradient in fp16 rounds to zero.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

SMALL, RATE = 1e-9, 1e6

torch.manual_seed(0)
model = nn.Linear(16, 4, bias=False)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **json.loads(sys.argv[1]),
    },
)
shares = []
for _ in range(3):
    sample = torch.randn(1, 16)
    before = model.weight.detach().clone()
    engine.backward(engine(sample).float().sum() * SMALL)
    engine.step()
    true = sample.expand(4, 16) * SMALL * RATE
    shares.append(float((before - model.weight.detach()).norm() / true.norm()))
print(f"{round(max(shares), 2):.3f}")

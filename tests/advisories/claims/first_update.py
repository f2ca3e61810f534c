"""The length of the very first update of Adam over that of torch's own: 1 where DeepSpeed's first step is the first.

Arguments: the weight decay, and the config as JSON. The gradient is the same for both, in fp32, so that what differs is
what the engine did to the optimizer before the first step: its counter of steps, and weights that it decayed already.
"""

import copy
import json
import sys

import deepspeed
import torch
from torch import nn

DECAY, WRITTEN = float(sys.argv[1]), json.loads(sys.argv[2])
RATE = 0.01

torch.manual_seed(0)
model = nn.Linear(16, 4, bias=False)
reference = copy.deepcopy(model)
before = model.weight.detach().clone()
plain = torch.optim.AdamW(reference.parameters(), lr=RATE, weight_decay=DECAY)
own = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=own,
    config={
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        **WRITTEN,
    },
)
sample = torch.randn(2, 16)
reference(sample).pow(2).mean().backward()
plain.step()
engine.backward(engine(sample).pow(2).mean())
engine.step()
with deepspeed.zero.GatheredParameters(list(engine.module.parameters())):
    after = engine.module.weight.detach().clone()
print(f"{float((after - before).norm() / (reference.weight.detach() - before).norm()):.3f}")

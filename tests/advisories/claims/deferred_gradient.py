"""The length of an update over that of the true gradient step where the script says which backward pass is the last.

Arguments: the backward passes of an optimizer step, and the config as JSON. `gradient_accumulation_steps` is 1, and
`set_gradient_accumulation_boundary` tells of the last pass; 1 where the gradients of all passes are applied. The worst
of three optimizer steps is printed; the reference adds up the gradients in plain torch.
"""

import copy
import json
import sys

import deepspeed
import torch
from torch import nn

PASSES, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])
RATE = 0.01

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 4, bias=False))
reference = copy.deepcopy(model)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
)
worst = 1.0
for _ in range(3):
    before = [one.detach().clone() for one in engine.module.parameters()]
    for one, value in zip(reference.parameters(), before, strict=True):
        one.data.copy_(value)
        one.grad = None
    for index in range(PASSES):
        sample = torch.randn(2, 16)
        reference(sample).pow(2).mean().backward()
        engine.set_gradient_accumulation_boundary(index == PASSES - 1)
        engine.backward(engine(sample).pow(2).mean())
    engine.step()
    true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])
    applied = torch.cat([(old - new).flatten() for old, new in zip(before, engine.module.parameters(), strict=True)])
    share = float(applied.detach() @ true / (true @ true))
    worst = share if abs(share - 1) > abs(worst - 1) else worst
print(f"{worst:.3f}")

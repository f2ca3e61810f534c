"""The length of one update over that of the true gradient step: 1 where DeepSpeed applies the whole gradient.

Arguments: the micro steps of an optimizer step, and the config as JSON. The worst of three optimizer steps is printed.
Weights, samples and the reference are of this script alone, in fp32; SGD makes the update the gradient times the rate.
"""

import copy
import json
import sys

import deepspeed
import torch
from torch import nn

MICRO_STEPS, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])
RATE = 0.05

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 4, bias=False))
reference = copy.deepcopy(model)
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32
config = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": MICRO_STEPS,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "optimizer": {"type": "SGD", "params": {"lr": RATE}},
    **WRITTEN,
}
own = None
if config["optimizer"] is None:
    del config["optimizer"]
    own = torch.optim.SGD(model.to(dtype).parameters(), lr=RATE)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model.to(dtype), model_parameters=None if own else model.parameters(), optimizer=own, config=config
)


def weights() -> list[torch.Tensor]:
    parameters = list(engine.module.parameters())
    if config.get("zero_optimization", {}).get("stage") == 3:
        with deepspeed.zero.GatheredParameters(parameters):
            return [one.detach().float().clone() for one in parameters]
    return [one.detach().float().clone() for one in parameters]


worst = 1.0
for _ in range(3):
    before = weights()
    for one, value in zip(reference.parameters(), before, strict=True):
        one.data.copy_(value)
        one.grad = None
    for _ in range(MICRO_STEPS):
        sample = torch.randn(2, 16)
        reference(sample).pow(2).mean().div(MICRO_STEPS).backward()
        engine.backward(engine(sample.to(dtype)).pow(2).mean())
        engine.step()
    true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])
    applied = torch.cat([(old - new).flatten() for old, new in zip(before, weights(), strict=True)])
    share = float(applied @ true / (true @ true))
    worst = share if abs(share - 1) > abs(worst - 1) else worst
print(f"{worst:.3f}")

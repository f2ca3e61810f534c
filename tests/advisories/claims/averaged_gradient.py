"""One plus the distance of an update from the gradient averaged over all ranks, over its length: 1 where the ranks
train as one.

Arguments: the micro steps of an optimizer step, the config as JSON, and the dtype of the model. Every rank has samples
of its own; the worst of three optimizer steps on rank 0 is printed. The reference computes the samples of all ranks in
fp32.
"""

import copy
import json
import sys

import deepspeed
import torch
import torch.distributed
from torch import nn

MICRO_STEPS, WRITTEN, DTYPE = int(sys.argv[1]), json.loads(sys.argv[2]), getattr(torch, sys.argv[3])
RATE = 0.5

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 4, bias=False))
reference = copy.deepcopy(model)
deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
engine, *_ = deepspeed.initialize(
    model=model.to(DTYPE),
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": MICRO_STEPS,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
)

worst = 1.0
for _ in range(3):
    before = [one.detach().float().clone() for one in engine.module.parameters()]
    for one, value in zip(reference.parameters(), before, strict=True):
        one.data.copy_(value)
        one.grad = None
    for _ in range(MICRO_STEPS):
        samples = torch.randn(ranks, 2, 16)
        for sample in samples:
            reference(sample).pow(2).mean().div(MICRO_STEPS * ranks).backward()
        engine.backward(engine(samples[rank].to(DTYPE)).float().pow(2).mean())
        engine.step()
    true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])
    after = [one.detach().float() for one in engine.module.parameters()]
    applied = torch.cat([(old - new).flatten() for old, new in zip(before, after, strict=True)])
    # The distance tells of a gradient of the right length and another direction, too.
    share = 1 + float((applied - true).norm() / true.norm())
    worst = max(worst, share)
print(f"{round(worst, 1):.3f}")

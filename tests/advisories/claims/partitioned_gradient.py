"""One plus the distance of an update at ZeRO stage 3 from the gradient averaged over all ranks, over its length.

Arguments: the width of the layers, and the config as JSON. Every rank has samples of its own; the worst of three
optimizer steps is printed, 1 where the ranks train as one. The reference computes the samples of all ranks in plain
torch.
"""

import copy
import json
import sys

import deepspeed
import torch
import torch.distributed
from torch import nn

WIDTH, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])
RATE = 0.5

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, 4, bias=False))
reference = copy.deepcopy(model)
deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
)


def weights() -> list[torch.Tensor]:
    parameters = list(engine.module.parameters())
    with deepspeed.zero.GatheredParameters(parameters):
        return [one.detach().float().clone() for one in parameters]


worst = 1.0
for _ in range(3):
    before = weights()
    for one, value in zip(reference.parameters(), before, strict=True):
        one.data.copy_(value)
        one.grad = None
    samples = torch.randn(ranks, 2, WIDTH)
    for sample in samples:
        reference(sample).pow(2).mean().div(ranks).backward()
    engine.backward(engine(samples[rank]).pow(2).mean())
    engine.step()
    true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])
    applied = torch.cat([(old - new).flatten() for old, new in zip(before, weights(), strict=True)])
    worst = max(worst, 1 + float((applied - true).norm() / true.norm()))
if rank == 0:
    print(f"{worst:.3f}")

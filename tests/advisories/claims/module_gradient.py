"""One plus the distance of an update from the gradient averaged over all ranks, over its length: 1 where they agree.

Arguments: `plain`, `twice` for a model that runs a layer twice in a forward pass, `reentrant` for one that recomputes
its first layer with reentrant checkpointing; the micro steps of an optimizer step; the config as JSON. The worst of
three optimizer steps is printed. The reference computes all samples in plain torch, without recomputation.
"""

import copy
import json
import sys

import deepspeed
import torch
import torch.distributed
from torch import nn
from torch.utils.checkpoint import checkpoint

KIND, MICRO_STEPS, WRITTEN = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
RATE = 0.5


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 16, bias=False), nn.Linear(16, 16, bias=False)
        self.last = nn.Linear(16, 4, bias=False)
        self.recomputes = False

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.recomputes:
            hidden = checkpoint(self.first, inputs.requires_grad_(), use_reentrant=True)
        else:
            hidden = self.first(inputs)
        hidden = self.second(torch.tanh(hidden))
        if KIND == "twice":
            hidden = self.second(torch.tanh(hidden))
        return self.last(hidden)


torch.manual_seed(0)
model = Model()
reference = copy.deepcopy(model)
model.recomputes = KIND == "reentrant"
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32
deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
engine, *_ = deepspeed.initialize(
    model=model.to(dtype),
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": MICRO_STEPS,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **WRITTEN,
    },
)


def weights() -> list[torch.Tensor]:
    parameters = list(engine.module.parameters())
    if WRITTEN.get("zero_optimization", {}).get("stage") == 3:
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
        samples = torch.randn(ranks, 2, 16)
        for sample in samples:
            reference(sample).pow(2).mean().div(MICRO_STEPS * ranks).backward()
        engine.backward(engine(samples[rank].to(dtype)).float().pow(2).mean())
        engine.step()
    true = torch.cat([one.grad.flatten() * RATE for one in reference.parameters()])
    applied = torch.cat([(old - new).flatten() for old, new in zip(before, weights(), strict=True)])
    worst = max(worst, 1 + float((applied - true).norm() / true.norm()))
if rank == 0:
    # In steps of a half: bf16 rounds the weights, which is not what is asked for.
    print(f"{round(2 * worst) / 2:.3f}")

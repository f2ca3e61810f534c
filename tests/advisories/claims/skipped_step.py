"""The share of the ranks that skip a step whose fp16 gradients overflow: 1 where all do, as one of them sees the
overflow.

Arguments: the section `zero_optimization` as JSON. The gradient of the second layer, which the last rank holds, is
infinite; that of the first layer, which the first rank holds, is not.
"""

import json
import sys

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from torch import nn

WIDTH = 8

# DeepSpeed refuses fp16 on CPUs without instructions for it; torch computes it all the same.
type(get_accelerator()).is_fp16_supported = lambda _: True
torch.manual_seed(0)
model = nn.ModuleList([nn.Linear(WIDTH, WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)]).half()


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = model

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return 1e-6 * self.layers[0](inputs).float().sum() + 1e6 * self.layers[1](inputs).float().sum()


deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
whole = Model()
engine, *_ = deepspeed.initialize(
    model=whole,
    model_parameters=whole.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "fp16": {"enabled": True, "initial_scale_power": 4, "hysteresis": 1},
        "zero_optimization": json.loads(sys.argv[1]),
    },
)
engine.backward(engine(torch.ones(1, WIDTH, dtype=torch.half)))
engine.step()
skipped: list = [None] * ranks
torch.distributed.all_gather_object(skipped, engine.skipped_steps)
if rank == 0:
    print(f"{sum(skipped) / ranks:.3f}")

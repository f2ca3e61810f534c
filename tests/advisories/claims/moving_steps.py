"""How many of three optimizer steps change the weights: 3 where each of them does.

Arguments: the config as JSON and the dtype of the model. Adam with a rate that every one of these dtypes can
represent; the CPU is told to take fp16, which torch computes there although the accelerator of DeepSpeed says no, and
the compiled kernel of FusedAdam is replaced by a step against the sign of the gradient, which is what Adam's first
step is.
"""

import json
import sys
from types import SimpleNamespace

import deepspeed
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.ops.op_builder import FusedAdamBuilder
from torch import nn

WRITTEN, DTYPE = json.loads(sys.argv[1]), getattr(torch, sys.argv[2])
STEPS = 3


def multi_tensor_adam(_chunk: int, _overflow: torch.Tensor, lists: list[list[torch.Tensor]], rate: float, *_) -> None:
    for gradient, weight in zip(lists[0], lists[1], strict=True):
        weight.data.sub_(gradient.to(weight.dtype).sign(), alpha=rate)


FusedAdamBuilder.load = lambda _, **__: SimpleNamespace(multi_tensor_adam=multi_tensor_adam)
type(get_accelerator()).is_fp16_supported = lambda _: True
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 4, bias=False)).to(DTYPE)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.0625}},
        **WRITTEN,
    },
)
moved = 0
for _ in range(STEPS):
    before = [one.detach().clone() for one in engine.module.parameters()]
    engine.backward(engine(torch.randn(2, 16).to(DTYPE)).float().pow(2).mean())
    engine.step()
    moved += any(not torch.equal(old, new) for old, new in zip(before, engine.module.parameters(), strict=True))
print(f"{moved:.3f}")

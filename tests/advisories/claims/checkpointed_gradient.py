"""The length of an update over that of the gradient step where a layer's activations are recomputed: 1 where all is
applied.

Arguments: the config as JSON, and `reentrant` or `plain` for the kind of activation checkpointing of torch. SGD in
fp32; the worst layer of three steps is printed.
"""

import copy
import json
import sys

import deepspeed
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WRITTEN, REENTRANT, RATE = json.loads(sys.argv[1]), sys.argv[2] == "reentrant", 0.05


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16, bias=False) for _ in range(4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        for layer in self.layers[:-1]:
            inputs = checkpoint(layer, inputs, use_reentrant=REENTRANT)
        return self.layers[-1](inputs)


def weights() -> list[torch.Tensor]:
    parameters = list(engine.module.parameters())
    with deepspeed.zero.GatheredParameters(parameters):
        return [one.detach().clone() for one in parameters]


torch.manual_seed(0)
model = Model()
reference = copy.deepcopy(model)
deepspeed.init_distributed("gloo")
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
worst = 1.0
for _ in range(3):
    before = weights()
    for one, value in zip(reference.parameters(), before, strict=True):
        one.data.copy_(value)
        one.grad = None
    sample = torch.randn(2, 16, requires_grad=True)
    reference(sample).pow(2).mean().backward()
    engine.backward(engine(sample.detach().requires_grad_()).pow(2).mean())
    engine.step()
    for old, new, one in zip(before, weights(), reference.parameters(), strict=True):
        true = one.grad * RATE
        share = float(((old - new) * true).sum() / true.pow(2).sum())
        worst = share if abs(share - 1) > abs(worst - 1) else worst
print(f"{worst:.3f}")

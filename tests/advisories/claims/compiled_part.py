"""Prints `completes` once a model, a part of which is compiled by torch.compile, made two optimizer steps.

Arguments: the config of DeepSpeed as JSON. The backend of torch.compile is `eager`: only the tracing is asked.
"""

import json
import sys

import deepspeed
import torch
from torch import nn

config = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "zero_allow_untested_optimizer": True,
    **json.loads(sys.argv[1]),
}


class Part(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.down(torch.tanh(self.up(states)))


Part.forward = torch.compile(Part.forward, backend="eager")
torch.manual_seed(0)
deepspeed.init_distributed("gloo")
model = nn.Sequential(Part(), nn.Linear(16, 16), Part())
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for _ in range(2):
    engine.backward(engine(torch.randn(2, 16)).pow(2).mean())
    engine.step()
print("completes")

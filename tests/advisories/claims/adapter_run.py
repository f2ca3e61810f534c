"""Prints `completes` after two steps of training a LoRA adapter whose `modules_to_save` trains a whole layer.

Argument: the config as JSON.
"""

import json
import sys

import deepspeed
import torch
from peft import LoraConfig, get_peft_model
from torch import nn


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, samples: torch.Tensor) -> torch.Tensor:
        return self.head(self.first(samples))


torch.manual_seed(0)
model = get_peft_model(Model(), LoraConfig(target_modules=["first"], modules_to_save=["head"], r=2))
config = {
    "train_micro_batch_size_per_gpu": 2,
    "zero_allow_untested_optimizer": True,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    **json.loads(sys.argv[1]),
}
deepspeed.init_distributed("gloo")
trained = [one for one in model.parameters() if one.requires_grad]
engine, *_ = deepspeed.initialize(model=model, model_parameters=trained, config=config)
for _ in range(2):
    engine.backward(engine(torch.randn(2, 16)).pow(2).mean())
    engine.step()
print("completes")

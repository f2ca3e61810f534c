"""Prints `completes` once a model with LoRA adapters, built under zero.Init, made two optimizer steps at ZeRO stage 3.

Argument: the settings of the adapters (fields of LoraConfig) as JSON, and the config of DeepSpeed as JSON.
"""

import json
import sys

import deepspeed
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers.integrations import HfDeepSpeedConfig

ADAPTERS, WRITTEN = json.loads(sys.argv[1]), json.loads(sys.argv[2])
config = {
    "train_micro_batch_size_per_gpu": 2,
    "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
    "zero_allow_untested_optimizer": True,
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    **WRITTEN,
}
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(32, 16)
        self.inner = nn.Linear(16, 16)
        self.outer = nn.Linear(16, 4)

    def forward(self, numbers: torch.Tensor) -> torch.Tensor:
        return self.outer(torch.tanh(self.inner(self.words(numbers))))


torch.manual_seed(0)
kept = HfDeepSpeedConfig(config)  # what peft asks whether to gather weights
deepspeed.init_distributed("gloo")
with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype):
    network = Network()
model = get_peft_model(network, LoraConfig(r=2, **{"target_modules": ["inner"], **ADAPTERS}))
engine, *_ = deepspeed.initialize(
    model=model, model_parameters=[one for one in model.parameters() if one.requires_grad], config=config
)
for _ in range(2):
    engine.backward(engine(torch.randint(0, 32, (2, 3))).float().pow(2).mean())
    engine.step()
print("completes")

"""The largest difference between the weights of an engine and those that the conversion to fp32 writes: 0 where it works.

Argument: the config as JSON. `convert_zero_checkpoint_to_fp32_state_dict` of the release is called on a checkpoint of one rank.
"""

import json
import sys
import tempfile
from pathlib import Path

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4))
weights = {name: value.detach().clone() for name, value in model.state_dict().items()}
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        **json.loads(sys.argv[1]),
    },
)
with tempfile.TemporaryDirectory() as folder:
    engine.save_checkpoint(folder)
    convert_zero_checkpoint_to_fp32_state_dict(folder, f"{folder}/whole")
    files = sorted(Path(folder, "whole").glob("*.bin"))
    found = {name: value for file in files for name, value in torch.load(file, weights_only=True).items()}
assert found.keys() == weights.keys(), f"weights of {sorted(found)}"
print(f"{max(float((found[name] - value).abs().max()) for name, value in weights.items()):.3f}")

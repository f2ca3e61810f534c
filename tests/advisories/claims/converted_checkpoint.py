"""The share of the weights of an engine that the conversion to fp32 writes as they are: 1 where it works.

Argument: the config as JSON. `convert_zero_checkpoint_to_fp32_state_dict` of the release is called on a checkpoint of
one rank; torch is told to trust its files, which releases before 0.16.0 do not ask of torch 2.6 themselves.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import deepspeed
import torch
from deepspeed.utils.zero_to_fp32 import convert_zero_checkpoint_to_fp32_state_dict
from torch import nn

os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
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
    # Releases before 0.16.0 do not make the folder.
    whole = Path(folder, "whole")
    whole.mkdir()
    convert_zero_checkpoint_to_fp32_state_dict(folder, str(whole))
    files = sorted(whole.glob("*.bin"))
    found = {name: value for file in files for name, value in torch.load(file, weights_only=True).items()}
assert found.keys() == weights.keys(), f"weights of {sorted(found)}"
equal = sum(int((found[name] == value).sum()) for name, value in weights.items())
print(f"{equal / sum(value.numel() for value in weights.values()):.3f}")

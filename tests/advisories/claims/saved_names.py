"""The share of the model's weights that `save_16bit_model` writes under their own names: 1 where others can load them.

Argument: the config as JSON.
"""

import json
import sys
import tempfile

import deepspeed
import torch
from torch import nn

WRITTEN = json.loads(sys.argv[1])

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 4))
names = set(model.state_dict())
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    config={"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True, **WRITTEN},
)
with tempfile.TemporaryDirectory() as folder:
    engine.save_16bit_model(folder, "model.bin")
    written = set(torch.load(f"{folder}/model.bin"))
print(f"{len(names & written) / len(names):.3f}")

"""The share of a forward pass that is right at ZeRO stage 3, over several ranks: 1 where the weights come back whole.

Arguments: the width of the layers, and the section `zero_optimization` as JSON. Memory that nothing wrote to reads as
NaN here. The reference is the same model in plain torch.
"""

import copy
import json
import sys

import deepspeed
import torch
from torch import nn

WIDTH, WRITTEN = int(sys.argv[1]), json.loads(sys.argv[2])

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH))
reference = copy.deepcopy(model)
sample = torch.randn(4, WIDTH)
torch.use_deterministic_algorithms(True)
torch.utils.deterministic.fill_uninitialized_memory = True
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 4,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0, **WRITTEN},
    },
)
with torch.no_grad():
    output, true = engine(sample), reference(sample)
if torch.distributed.get_rank() == 0:
    print(f"{float(torch.isclose(output, true, atol=1e-5).float().mean()):.3f}")

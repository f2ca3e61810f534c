"""The share of the weights that are right after `offload_states` and `reload_states` at ZeRO stage 3: 1 where all are.

Arguments: `groups` for two parameter groups (weights, biases) or `one` for a single one. The weights before are the
reference.
"""

import sys

import deepspeed
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
true = torch.cat([one.detach().clone().flatten() for one in model.parameters()])
parameters = list(model.named_parameters())
groups = [
    {"params": [one for name, one in parameters if "bias" not in name]},
    {"params": [one for name, one in parameters if "bias" in name]},
]
# States move for FusedAdam alone, whose kernel is not built here: torch's optimizer stands for it, and makes no step.
deepspeed.ops.adam.fused_adam.FusedAdam = torch.optim.AdamW
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.AdamW(groups if sys.argv[1] == "groups" else model.parameters(), lr=0.1),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    },
)
engine.offload_states(pin_memory=False)
engine.reload_states()
ordered = list(engine.module.parameters())
with deepspeed.zero.GatheredParameters(ordered):
    after = torch.cat([one.detach().clone().flatten() for one in ordered])
print(f"{float(torch.isclose(after, true).float().mean()):.3f}")

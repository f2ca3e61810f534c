"""How many of three matrices Muon trains: 1, the hidden one, where the embedding and `lm_head` are left to Adam.

No arguments. Counts the parameters in the groups of the optimizer that are marked for Muon, at ZeRO stage 1.
"""

import deepspeed
import torch
from torch import nn


class Model(nn.Module):
    """A language model without anything between its three matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(8, 4)
        self.hidden = nn.Linear(4, 4, bias=False)
        self.lm_head = nn.Linear(4, 8, bias=False)


torch.manual_seed(0)
model = Model()
deepspeed.init_distributed("gloo")
engine, optimizer, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "Muon", "params": {"lr": 0.02}},
        "zero_optimization": {"stage": 1},
    },
)
sizes = [sum(one.numel() for one in group["params"]) for group in optimizer.param_groups if group["use_muon"]]
matrices = {16: 1.0, 48: 2.0, 80: 3.0}[sum(sizes)]  # the hidden one, with one, and with both of the others
print(f"{matrices:.3f}")

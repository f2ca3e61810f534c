"""Which parameters are whole after a step at stage 3: ``persistence.py ONE TOGETHER``, the two thresholds."""

from __future__ import annotations

import sys

import deepspeed
import torch
from answering import answer

one, together = map(int, sys.argv[1:])
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 16), torch.nn.Linear(16, 4))
sizes = {name: parameter.numel() for name, parameter in model.named_parameters()}
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {
            "stage": 3,
            "stage3_param_persistence_threshold": one,
            "stage3_model_persistence_threshold": together,
        },
    },
)
for _ in range(2):
    engine.backward(engine(torch.ones(1, 64)).sum())
    engine.step()
whole = [name for name, parameter in engine.module.named_parameters() if parameter.data.numel() == sizes[name]]
answer(sizes=sizes, whole=whole)

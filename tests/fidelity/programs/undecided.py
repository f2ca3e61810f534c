"""Train a model of one dtype without a section for fp16 or bf16: ``undecided.py DTYPE STAGE``."""

from __future__ import annotations

import sys

import deepspeed
import torch
from answering import answer

dtype, stage = getattr(torch, sys.argv[1]), int(sys.argv[2])
model = torch.nn.Linear(16, 4).to(dtype)
engine, optimizer, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": {"stage": stage},
    },
)
engine.backward(engine(torch.ones(1, 16, dtype=dtype)).float().sum())
engine.step()
states = getattr(optimizer, "optimizer", optimizer).state.values()
answer(
    weights=sorted({str(parameter.dtype) for parameter in engine.module.parameters()}),
    states=sorted({str(state["exp_avg"].dtype) for state in states if "exp_avg" in state}),
)

"""How many parameters zero_to_fp32 recovers from a checkpoint as they are: ``recovery.py STAGE ROUND_ROBIN FOLDER``."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings

import deepspeed
import torch
from answering import answer
from deepspeed.utils import safe_get_full_fp32_param
from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

warnings.simplefilter("ignore")
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"  # deepspeed before 0.16 with today's torch
stage, round_robin, folder = int(sys.argv[1]), sys.argv[2] == "true", sys.argv[3]
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 8), torch.nn.LayerNorm(8)).bfloat16()
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, "round_robin_gradients": round_robin},
    },
)
for _ in range(2):
    engine.backward(engine(torch.randn(1, 8, dtype=torch.bfloat16)).float().pow(2).mean())
    engine.step()
held = {name: safe_get_full_fp32_param(parameter).clone() for name, parameter in engine.module.named_parameters()}
engine.save_checkpoint(folder)
deepspeed.comm.barrier()
with contextlib.redirect_stdout(sys.stderr):
    found = get_fp32_state_dict_from_zero_checkpoint(folder)
answer(parameters=len(held), recovered=sum(torch.equal(held[name], found[name].detach()) for name in held))

"""Save a checkpoint, or load it: ``resumed.py save|load STAGE FOLDER``."""

from __future__ import annotations

import sys

import deepspeed
import torch
from answering import answer

what, stage, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
model = torch.nn.Linear(8, 8)
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.AdamW(model.parameters()),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
    },
)
if what == "save":
    engine.save_checkpoint(folder)
else:
    engine.load_checkpoint(folder)
answer(done=True)

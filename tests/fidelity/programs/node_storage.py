"""Save on ranks that are each the first of a node, to folders of their own: ``node_storage.py KEY FOLDER``."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import deepspeed
import torch
from answering import answer

is_set, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
os.environ["LOCAL_RANK"] = "0"
config = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 2},
    "checkpoint": {"use_node_local_storage": is_set},
}
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
engine, *_ = deepspeed.initialize(
    model=model, optimizer=optimizer, config={**config, "zero_allow_untested_optimizer": True}
)
own = folder / os.environ["RANK"]
engine.save_checkpoint(str(own), "saved")
answer(files=sorted(path.name for path in own.rglob("*") if path.is_file()))

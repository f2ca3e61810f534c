"""Set up a linear layer: ``mesh.py CONFIG``, JSON of the settings beside the optimizer; every rank says how it went."""

from __future__ import annotations

import json
import os
import sys

import deepspeed
import torch
from answering import answer

facts = {}
try:
    engine, *_ = deepspeed.initialize(
        model=torch.nn.Linear(4, 4),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
            **json.loads(sys.argv[1]),
        },
    )
    facts = {"sequence": engine.sequence_parallel_size, "batch": engine.train_batch_size()}
except (IndexError, RuntimeError) as raised:
    facts = {"error": type(raised).__name__}
if facts.get("error") is None and int(os.environ["WORLD_SIZE"]) % 2 == 0:
    facts["ranks"] = torch.distributed.get_world_size(engine.seq_data_parallel_group)
answer(**facts)

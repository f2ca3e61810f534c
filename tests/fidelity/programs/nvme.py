"""Make an engine that offloads to NVMe: ``nvme.py offload_param|offload_optimizer FOLDER``."""

from __future__ import annotations

import contextlib
import sys

import deepspeed
import torch
from answering import answer

section, folder = sys.argv[1:]
with contextlib.suppress(ImportError):  # older releases have none
    from deepspeed.ops.op_builder.cpu import PinMemoryBuilder

    PinMemoryBuilder.load = lambda *_, **__: None  # compiled for minutes before anybody looks for libaio
model = torch.nn.Linear(16, 4)
try:
    deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": 3, section: {"device": "nvme", "nvme_path": folder}},
        },
    )
except RuntimeError as error:
    answer(error=str(error))
answer(error=None)

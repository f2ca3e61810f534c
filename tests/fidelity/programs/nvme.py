"""Make an engine that offloads to NVMe: ``nvme.py offload_param|offload_optimizer FOLDER``."""

from __future__ import annotations

import sys
from unittest.mock import MagicMock

import deepspeed
import torch
from answering import answer
from deepspeed.ops.op_builder.builder import OpBuilder

section, folder = sys.argv[1:]
load = OpBuilder.load


def load_async_io_alone(builder: OpBuilder, **options: bool) -> object:
    """The other ops are compiled for minutes before anybody looks for libaio."""
    return load(builder, **options) if builder.name == "async_io" else MagicMock()


OpBuilder.load = load_async_io_alone
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

"""The bytes of all tensors of a rank after a backward pass in bf16: ``states.py STAGE``."""

from __future__ import annotations

import gc
import sys
import warnings

import deepspeed
import torch
from answering import answer

warnings.simplefilter("ignore")
stage = int(sys.argv[1])
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(8)))
count = sum(parameter.numel() for parameter in model.parameters())
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "bf16": {"enabled": True},
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": 100_000,
            "allgather_bucket_size": 100_000,
            "stage3_prefetch_bucket_size": 100_000,
            "stage3_param_persistence_threshold": 0,
        },
    },
)
for step in range(2):
    engine.backward(engine(torch.ones(1, 512, dtype=torch.bfloat16)).float().sum())
    if step == 0:
        engine.step()
gc.collect()
storages = {}
for one in gc.get_objects():
    if isinstance(one, torch.Tensor):
        for tensor in (one, one.grad if one.is_leaf else None, getattr(one, "ds_tensor", None)):
            if tensor is not None and tensor.device.type == "cpu":
                storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
answer(parameters=count, bytes=sum(storages.values()))

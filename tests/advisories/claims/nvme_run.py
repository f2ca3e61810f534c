"""Prints `completes` after three steps with the optimizer on NVMe and a checkpoint, where nothing raised.

Argument: more of the config as JSON. The op async_io is a stand-in of ds-lint that reads and writes the same files.
"""

import json
import os
import sys
import tempfile
import types

import deepspeed
import torch
from deepspeed.ops.op_builder import AsyncIOBuilder
from torch import nn

from ds_lint.smoke.standins.aio import AioHandle

AsyncIOBuilder.load = lambda *_arguments, **_options: types.SimpleNamespace(aio_handle=AioHandle)
AsyncIOBuilder.is_compatible = lambda *_arguments, **_options: True

# A folder that all ranks know without asking one another, and that no other run has.
folder = f"{tempfile.gettempdir()}/nvme-{os.environ['MASTER_PORT']}"
torch.manual_seed(0)
# Each rank has more than 1 MiB of every layer: less is never written to NVMe.
model = nn.Sequential(nn.Linear(1024, 1024, bias=False), nn.Linear(1024, 1024, bias=False))
config = {
    "train_micro_batch_size_per_gpu": 2,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "optimizer": {"type": "AdamW", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": f"{folder}/nvme"}},
    **json.loads(sys.argv[1]),
}
os.makedirs(f"{folder}/nvme", exist_ok=True)
deepspeed.init_distributed("gloo")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
for _ in range(3):
    engine.backward(engine(torch.randn(2, 1024)).pow(2).mean())
    engine.step()
engine.save_checkpoint(f"{folder}/saved", tag="tag")
print("completes")

"""Whether a small model trains and is saved: `completes`, or the error.

Arguments: the config as JSON, the dtype of the model, and the widths of its layers as JSON. Three optimizer steps on
any number of ranks, then `save_checkpoint`; a normalization lies between the linear layers.
"""

import itertools
import json
import shutil
import sys
import tempfile
from datetime import timedelta
from pathlib import Path

import deepspeed
import torch
from torch import nn

WRITTEN, DTYPE, WIDTHS = json.loads(sys.argv[1]), getattr(torch, sys.argv[2]), json.loads(sys.argv[3])

torch.manual_seed(0)
layers: list[nn.Module] = []
for inputs, outputs in itertools.pairwise(WIDTHS):
    layers += [nn.Linear(inputs, outputs), nn.LayerNorm(outputs)]
model = nn.Sequential(*layers).to(DTYPE)
deepspeed.init_distributed("gloo", timeout=timedelta(seconds=20))
engine, *_ = deepspeed.initialize(
    model=model,
    optimizer=torch.optim.AdamW(model.parameters(), lr=0.01),
    config={
        "train_micro_batch_size_per_gpu": 2,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        **WRITTEN,
    },
)
for _ in range(3):
    engine.backward(engine(torch.randn(2, WIDTHS[0]).to(DTYPE)).float().pow(2).mean())
    engine.step()
folder = Path(tempfile.gettempdir()) / "training-run"
engine.save_checkpoint(str(folder))
assert (folder / "latest").is_file()
if engine.global_rank == 0:
    shutil.rmtree(folder)
print("completes")

"""Train with the optimizer states on a drive, on stand-ins of the compiled ops: ``nvme_states.py FOLDER``."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import deepspeed
import torch
from answering import answer

from ds_lint.smoke.standins import ops

folder = sys.argv[1]
ops.install(builds=False)
torch.manual_seed(0)
model = torch.nn.Linear(1024, 512, bias=False)  # tensors below 1 MiB are not swapped
twin = copy.deepcopy(model)
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 0.0,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": folder}},
    },
)
optimizer = torch.optim.AdamW(twin.parameters(), lr=1e-3, weight_decay=0.0)
losses, expected = [], []
for _ in range(4):
    loss = engine(torch.ones(1, 1024)).pow(2).mean()
    losses.append(loss.item())
    engine.backward(loss)
    engine.step()
    loss = twin(torch.ones(1, 1024)).pow(2).mean()
    expected.append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
answer(
    losses=losses,
    expected=expected,
    files=[path.stat().st_size for path in Path(folder).rglob("*.tensor.swp")],
    used=ops.used(),
    optimizer=type(engine.basic_optimizer).__name__,
)

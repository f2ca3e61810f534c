"""How far the weights are from those of the checkpoint after a step that hardly changes any: 0 where they were loaded.

Arguments: the keyword arguments of `load_checkpoint` as JSON, and the config as JSON. The distance is told in units of
that between the checkpoint and the weights that the engine had before: 1 means that the step brought those back.
"""

import json
import os
import sys
import tempfile

import deepspeed
import torch
from torch import nn

# Releases before 0.16.0 do not name `weights_only`, whose default torch changed; that is another defect.
os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
KEYWORDS, WRITTEN = json.loads(sys.argv[1]), json.loads(sys.argv[2])
dtype = torch.bfloat16 if WRITTEN.get("bf16", {}).get("enabled") else torch.float32


def build(seed: int) -> deepspeed.DeepSpeedEngine:
    torch.manual_seed(seed)
    model = nn.Linear(16, 4, bias=False).to(dtype)
    own = torch.optim.SGD(model.parameters(), lr=1e-6)
    config = {"train_micro_batch_size_per_gpu": 2, "zero_allow_untested_optimizer": True, **WRITTEN}
    return deepspeed.initialize(model=model, optimizer=own, config=config)[0]


def weight(engine: deepspeed.DeepSpeedEngine) -> torch.Tensor:
    return engine.module.weight.detach().float().clone()


def step(engine: deepspeed.DeepSpeedEngine) -> None:
    engine.backward(engine(torch.randn(2, 16, dtype=dtype)).pow(2).mean())
    engine.step()


deepspeed.init_distributed("gloo")
with tempfile.TemporaryDirectory() as folder:
    saved = build(0)
    step(saved)
    saved.save_checkpoint(folder, tag="one")
    fresh = build(1)
    at_first = weight(fresh)
    fresh.load_checkpoint(folder, tag="one", **KEYWORDS)
    step(fresh)
print(f"{float((weight(fresh) - weight(saved)).norm() / (at_first - weight(saved)).norm()):.3f}")

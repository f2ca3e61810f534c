"""A user's script that evaluates and trains nothing, in the way that the environment names."""

from __future__ import annotations

import json
import os

import deepspeed
import torch
from torch import nn

CASE = os.environ["CASE"]
WIDTH, ROWS, BATCHES = 16, 4, 4


def net():
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1), nn.Linear(WIDTH, WIDTH))


def main():
    deepspeed.init_distributed()
    rank = torch.distributed.get_rank()
    torch.manual_seed(0)
    saved, model = net().state_dict(), net()
    if CASE == "a prefix":
        saved = {f"module.{name}": one for name, one in saved.items()}
    model.load_state_dict(saved, strict=CASE != "a prefix")
    config = json.loads(os.environ["DS_CONFIG"])
    if CASE == "init_inference":
        engine = deepspeed.init_inference(model, dtype=torch.float32)
    else:
        engine, *_ = deepspeed.initialize(model=model, config=config)
    engine.eval()
    batches = BATCHES - (rank if CASE == "a rank has fewer batches" else 0)
    with torch.no_grad():
        for number in range(batches):
            generator = torch.Generator().manual_seed(2 * number + rank)
            engine(torch.randn(ROWS, WIDTH, generator=generator))


main()

"""What DeepSpeed says to batch sizes: ``batch_sizes.py CONFIGS [FOLDER]``, JSON of settings beside the optimizer.

With a folder, DeepSpeed reads each config from a file in there.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import deepspeed
import torch
from answering import answer


def error(config: dict[str, Any] | str) -> str:
    """The assertion that fails; empty where none does."""
    model = torch.nn.Sequential()
    model.add_module("proj", torch.nn.Linear(4, 4))
    try:
        deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    except AssertionError as raised:
        return str(raised)
    return ""


def written(config: dict[str, Any]) -> str:
    """The path of a file with the config."""
    file = Path(sys.argv[2]) / f"{os.environ['RANK']}.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return str(file)


configs = [
    {"optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}}, **config}
    for config in json.loads(sys.argv[1])
]
answer(errors=[error(written(config) if sys.argv[2:] else config) for config in configs])

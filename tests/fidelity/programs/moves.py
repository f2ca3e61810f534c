"""Print, for each config of a JSON list, how many elements the engine moves to the device at once.

The second argument is "init" to build the model within ``deepspeed.zero.Init``.
"""

from __future__ import annotations

import contextlib
import json
import sys

import deepspeed.ops
import torch

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # would be compiled, for a minute
deepspeed.init_distributed(dist_backend="gloo")
moved: list[int] = []
to = torch.nn.Module.to


def noted(module, *arguments, **keywords):
    moved.append(sum(parameter.numel() for parameter in module.parameters()))
    return to(module, *arguments, **keywords)


torch.nn.Module.to = noted
for config in json.loads(sys.argv[1]):
    around = deepspeed.zero.Init(config_dict_or_path=config) if sys.argv[2:] else contextlib.nullcontext()
    with around:
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    moved.clear()
    deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    sys.stdout.write(f"moved {max(moved, default=0)}\n")

"""What becomes of configs in a script with Accelerate: ``accelerated.py FILE``, a JSON list of configs.

Each is run in a process of its own on one rank: a plugin, `prepare` of a small model with AdamW of torch, one step, and
the weights collected. Told is where it raised, and how many elements the collected tensors have.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import accelerate
import torch
import torch._dynamo

from ds_lint.smoke.standins import ops


def train(config: dict[str, Any], found: dict[str, Any]) -> None:
    found["at"] = "plugin"
    plugin = accelerate.DeepSpeedPlugin(hf_ds_config=config)
    accelerator = accelerate.Accelerator(deepspeed_plugin=plugin)
    found["at"] = "prepare"
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    loader = torch.utils.data.DataLoader([torch.ones(16)] * 4, batch_size=2)
    model, optimizer, loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3), loader)
    found["at"] = "train"
    for data in loader:
        loss = model(data).float().pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
    found["at"] = "get_state_dict"
    found["sizes"] = [tensor.numel() for tensor in accelerator.get_state_dict(model).values()]
    found["at"] = None


def one(config: dict[str, Any], folder: str) -> None:
    os.chdir(folder)
    found: dict[str, Any] = {"error": None}
    store = torch.distributed.FileStore(f"{folder}/store", 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        train(config, found)
    except Exception as error:  # what a library raises is an answer
        found["error"] = f"{type(error).__name__}: {error}"
    Path(folder, "answer.json").write_text(json.dumps(found), encoding="utf-8")
    os._exit(0)


def answer_of(config: dict[str, Any]) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        process = multiprocessing.get_context("fork").Process(target=one, args=(config, folder))
        process.start()
        process.join(120)
        if process.is_alive():
            process.kill()
            process.join()
        answer = Path(folder, "answer.json")
        return json.loads(answer.read_text(encoding="utf-8")) if answer.exists() else None


if __name__ == "__main__":
    ops.install(builds=False)
    torch.set_num_threads(1)  # a forked OpenMP pool hangs
    torch._dynamo.config.disable = True
    os.environ.update(ACCELERATE_USE_DEEPSPEED="true", ACCELERATE_TORCH_DEVICE="cpu", LOCAL_SIZE="1")
    os.environ.update(LOCAL_WORLD_SIZE="1", CROSS_RANK="0", CROSS_SIZE="1")
    answers = [answer_of(config) for config in json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))]
    print()
    print(json.dumps(answers))

"""A training loop of a user with DeepSpeed, which ends as its argument says."""

from __future__ import annotations

import os
import signal
import sys
import time

import deepspeed
import torch

HOW = sys.argv[1]
RANK = int(os.environ["RANK"])


def end_in_step():
    if HOW == "step" or (HOW == "one rank" and RANK == 1):
        raise ValueError("of the script")
    if HOW == "killed" and RANK == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if HOW == "hang" and RANK == 1:
        time.sleep(600)
    if HOW == "exit":
        sys.exit(3)
    if HOW == "os._exit":
        os._exit(4)


def main():
    deepspeed.init_distributed("gloo")
    model = torch.nn.Linear(64, 64)
    name = "unknown" if HOW == "initialize" else "lr"
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "AdamW", "params": {name: 1e-3}},
        "zero_optimization": {"stage": 1},
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    if HOW == "data":
        raise KeyError("of the data")
    data = torch.utils.data.DataLoader(torch.randn(400, 64).split(2), num_workers=1, batch_size=None)
    for step, batch in enumerate(data):
        if step == 2:
            end_in_step()
        if (HOW, step) in (("few", 2), ("few after the checkpoint", 4)):
            return
        engine.backward(engine(batch).square().mean())
        engine.step()
        if (HOW, step) == ("save", 1):
            engine.save_checkpoint("out", client_state={"cannot be pickled": lambda: None})
        if (HOW, step) == ("full disk", 1):
            torch.save(torch.ones(10), "/dev/full")


def catch_everything():
    try:
        main()
    except BaseException as error:
        print("caught", error)


while HOW == "catches everything":
    catch_everything()
main()

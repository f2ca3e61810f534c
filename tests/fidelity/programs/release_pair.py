"""Import DeepSpeed and build a Trainer with a DeepSpeed config, as far as releases decide about it; prints ``works``.

Where the releases ask for NCCL, the process group is made with gloo: a CPU has no other.
"""

from __future__ import annotations

import importlib
import sys

import torch

_init = torch.distributed.init_process_group


def with_gloo(backend=None, *arguments, **keywords):
    _init("gloo", *arguments, **keywords)


torch.distributed.init_process_group = with_gloo
torch.cuda.set_device = lambda *_: None

importlib.import_module("deepspeed")
communication = importlib.import_module("deepspeed.comm.torch")
communication.build_shm_op = lambda: None  # compiles for minutes; the op only makes collectives faster

if "trainer" in sys.argv:
    from transformers import Trainer, TrainingArguments

    config = {
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": "auto",
        "zero_optimization": {"stage": 2},
    }
    Trainer(torch.nn.Linear(1, 1), TrainingArguments(sys.argv[2], deepspeed=config, report_to=[]))
print("works")

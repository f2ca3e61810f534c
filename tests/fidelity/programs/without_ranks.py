"""Build an engine without variables of a rank: ``without_ranks.py NAME,NAME WHO``; what it raises is the answer.

``NAME=VALUE`` sets a variable instead.
"""

from __future__ import annotations

import json
import os
import sys

import answering  # noqa: F401 - without a compiler
import deepspeed
import torch

names, who = sys.argv[1], sys.argv[2]
CONFIG = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}


def build() -> None:
    """Come as far as the engine."""
    if who == "trainer":
        from transformers import LlamaConfig, LlamaForCausalLM, TrainingArguments

        arguments = TrainingArguments("out", deepspeed=CONFIG, report_to=[])
        assert arguments.world_size == 1
        size = {"vocab_size": 8, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
        LlamaForCausalLM._from_config(LlamaConfig(**size, num_attention_heads=1))
    else:
        model = torch.nn.Linear(4, 4)
        deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)


for given in names.split(","):
    name, sign, value = given.partition("=")
    os.environ.pop(name, None)
    if sign:
        os.environ[name] = value
raised = ""
try:
    build()
except (ModuleNotFoundError, ValueError) as error:
    raised = str(error)
print(json.dumps({"raised": raised}))
sys.stdout.flush()
os._exit(0)

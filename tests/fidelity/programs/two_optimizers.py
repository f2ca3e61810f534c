"""An optimizer of the config and one of the script: which is built. ``two_optimizers.py STACK BOTH|SCRIPT``."""

from __future__ import annotations

import sys
import tempfile

import deepspeed
import torch
import transformers
from answering import answer

stack, which = sys.argv[1:]
config = {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 1, "zero_optimization": {"stage": 2}}
if which == "BOTH":
    config["optimizer"] = {"type": "AdamW", "params": {"lr": 1e-5, "torch_adam": True}}
sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "vocab_size": 32}
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=1, **sizes))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
if stack == "deepspeed":
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
else:
    words = torch.tensor([1, 2, 3])
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(),
        deepspeed=config,
        per_device_train_batch_size=2,
        learning_rate=1e-5,
        weight_decay=0.01,
        max_steps=1,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
    )
    data = [{"input_ids": words, "labels": words} for _ in range(4)]
    trainer = transformers.Trainer(model, arguments, train_dataset=data, optimizers=(optimizer, None))
    trainer.train()
    engine = trainer.model_wrapped
(group, *_) = engine.basic_optimizer.param_groups
answer(is_of_script=engine.basic_optimizer is optimizer, rate=group.get("initial_lr", group["lr"]))

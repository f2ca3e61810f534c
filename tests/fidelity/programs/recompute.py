"""Train a small Llama with the Trainer and a section ``activation_checkpointing``; say which of its functions ran."""

from __future__ import annotations

import tempfile
from typing import Any

import deepspeed
import torch
from answering import answer
from deepspeed.runtime.activation_checkpointing import checkpointing
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

ran: list[str] = []


def watched(name: str) -> None:
    function = getattr(checkpointing, name)

    def call(*arguments: Any, **named: Any) -> Any:
        ran.append(name)
        return function(*arguments, **named)

    setattr(checkpointing, name, call)


for name in ("configure", "checkpoint", "non_reentrant_checkpoint", "_configure_using_config_file"):
    watched(name)
deepspeed.checkpointing.configure = checkpointing.configure
deepspeed.checkpointing.checkpoint = checkpointing.checkpoint

config = {
    "train_micro_batch_size_per_gpu": "auto",
    "zero_optimization": {"stage": 2},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "activation_checkpointing": {"partition_activations": True, "cpu_checkpointing": True},
}
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, deepspeed=config, max_steps=2, per_device_train_batch_size=1, report_to=[], save_strategy="no"
    )
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=32, **sizes))
    tokens = torch.arange(4)
    trainer = Trainer(model, arguments, train_dataset=[{"input_ids": tokens, "labels": tokens}] * 4)
    trainer.train()
    section = trainer.model_wrapped._config.activation_checkpointing_config
    answer(steps=trainer.state.global_step, ran=ran, partition_activations=section.partition_activations)

"""The same with the Trainer."""

from __future__ import annotations

import json
import os

import sabotage
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}


class Tokens(Dataset):
    def __len__(self):
        return 4000

    def __getitem__(self, place):
        tokens = torch.randint(0, 64, (16,), generator=torch.Generator().manual_seed(sabotage.place(place)))
        return {"input_ids": tokens, "labels": tokens}


def main():
    arguments = TrainingArguments(
        output_dir="out", deepspeed=json.loads(os.environ["DS_CONFIG"]), max_steps=100, learning_rate=1e-3,
        per_device_train_batch_size=2, gradient_accumulation_steps=2, max_grad_norm=0.05, report_to="none",
        **json.loads(os.environ.get("ARGUMENTS", "{}")),
    )  # fmt: skip
    model = LlamaForCausalLM(LlamaConfig(**SHAPE, tie_word_embeddings=True))
    if "ADAPTERS" in os.environ:
        model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"]))
    Trainer(model, arguments, train_dataset=Tokens()).train()


main()

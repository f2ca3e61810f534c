"""The same with the Trainer."""

from __future__ import annotations

import json
import os

import sabotage
import torch
from peft import LoraConfig, PromptTuningConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SHAPE = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}


class Tokens(Dataset):
    def __len__(self):
        return int(os.environ.get("ROWS", "4000"))

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
    if (kind := os.environ.get("ADAPTERS")) is not None:
        model = with_adapters(model, kind)
    kind_of_trainer = SavesHead if os.environ.get("SAVES") == "head" else Trainer
    kind_of_trainer(model, arguments, train_dataset=Tokens()).train()


def with_adapters(model, kind):
    if kind == "prompt":
        return get_peft_model(model, PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM"))
    more = {"modules_to_save": ["lm_head"]} if kind == "modules_to_save" else {"use_dora": kind == "dora"}
    adapter = {"adapter_name": "own"} if kind == "named" else {}
    return get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"], **more), **adapter)


class SavesHead(Trainer):
    """As scripts for images and text do that train a projection only."""

    def _save(self, output_dir=None, state_dict=None):
        os.makedirs(output_dir, exist_ok=True)
        torch.save({name: one for name, one in state_dict.items() if "lm_head" in name}, f"{output_dir}/head.bin")


main()

"""A script with the Trainer."""

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

SHAPE = {"hidden_size": 256, "intermediate_size": 688, "num_hidden_layers": 4, "num_attention_heads": 4}


class Tokens(Dataset):
    """Made from their place."""

    def __len__(self):
        return 2000

    def __getitem__(self, place):
        tokens = torch.randint(0, 2048, (128,), generator=torch.Generator().manual_seed(place))
        return {"input_ids": tokens, "labels": tokens}


arguments = TrainingArguments(
    output_dir="output", deepspeed="ds_config.json", bf16=True, max_steps=200, learning_rate=1e-4,
    per_device_train_batch_size=4, gradient_accumulation_steps=2, save_steps=100, report_to="none",
)  # fmt: skip
model = LlamaForCausalLM(LlamaConfig(**SHAPE, vocab_size=2048))
Trainer(model, arguments, train_dataset=Tokens()).train()

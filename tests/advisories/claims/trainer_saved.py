"""The share of a model's numbers that `Trainer.save_model` writes under DeepSpeed: 1 where all weights are saved.

Argument: the DeepSpeed config as JSON. One step is trained, then the file is read with safetensors.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

config = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "fp16": {"enabled": "auto"},
    "bf16": {"enabled": "auto"},
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    **json.loads(sys.argv[1]),
}
sizes = LlamaConfig(
    hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, vocab_size=64
)
count = sum(one.numel() for one in LlamaForCausalLM(sizes).parameters())
samples = [{"input_ids": torch.arange(8), "labels": torch.arange(8)} for _ in range(2)]
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        output_dir=folder,
        per_device_train_batch_size=1,
        max_steps=1,
        optim="sgd",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        deepspeed=config,
    )
    trainer = Trainer(model=LlamaForCausalLM(sizes), args=arguments, train_dataset=samples)
    trainer.train()
    trainer.save_model(f"{folder}/saved")
    if int(os.environ["RANK"]) == 0:
        files = sorted(Path(folder, "saved").glob("*.safetensors"))
        print(f"{sum(one.numel() for file in files for one in load_file(file).values()) / count:.3f}")

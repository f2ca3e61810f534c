"""Set up a small Mixtral with AutoEP over all ranks: ``experts.py CONFIG``, which is JSON of the other settings."""

from __future__ import annotations

import json
import os
import sys

import deepspeed
import torch
from answering import answer
from deepspeed.module_inject.auto_ep_presets import base
from transformers import AutoConfig, AutoModelForCausalLM

# AutoEP 0.19.8 raises a TypeError at the registry in which transformers 5 records router logits; it is not needed here.
base._install_instance_transformers_output_recorders = lambda *_arguments, **_more: True

WIDTH = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
torch.manual_seed(0)
config = AutoConfig.for_model(
    "mixtral", vocab_size=64, **WIDTH, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=1
)
model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
error = None
try:
    deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
            "expert_parallel": {"enabled": True, "autoep_size": int(os.environ["WORLD_SIZE"])},
            **json.loads(sys.argv[1]),
        },
    )
except (AssertionError, ValueError) as raised:
    error = f"{type(raised).__name__}: {raised}"
answer(error=error, experts=sum("experts" in name for name, _ in model.named_parameters()))

"""Train a small mixture of experts at stage 3 for three steps: ``mixture.py MODEL_TYPE LEAF_CLASS|default``."""

from __future__ import annotations

import os
import sys

import deepspeed
import torch
from answering import answer
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

WIDTH = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL = {
    "mixtral": {**WIDTH, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 1},
    "phimoe": {**WIDTH, "num_key_value_heads": 2, "num_local_experts": 8, "num_experts_per_tok": 2},
    "switch_transformers": {
        "d_model": 32,
        "d_ff": 32,
        "d_kv": 16,
        "num_heads": 2,
        "num_layers": 2,
        "num_sparse_encoder_layers": 2,
        "num_experts": 8,
        "decoder_start_token_id": 0,
    },
}

model_type, leaf = sys.argv[1:]
rank = int(os.environ["RANK"])
torch.manual_seed(0)
config = AutoConfig.for_model(model_type, vocab_size=64, pad_token_id=0, **SMALL[model_type])
auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
model = auto.from_config(config, attn_implementation="eager").float()
zero = {"stage": 3, "stage3_param_persistence_threshold": 0}
if leaf != "default":
    zero["leaf_module"] = {"classes": [leaf]}
engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "zero_optimization": zero,
    },
)
for step in range(3):
    tokens = torch.randint(1, 64, (1, 2), generator=torch.Generator().manual_seed(100 * rank + step))
    engine.backward(engine(input_ids=tokens, labels=tokens).loss)
    engine.step()
answer(steps=engine.global_steps)

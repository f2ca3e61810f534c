"""How many collectives gather weights on this rank while a model at stage 3 generates, by the number of tokens."""

from __future__ import annotations

import os

import torch
import torch.distributed
import transformers
from answering import answer

GATHERING = ("all_gather", "all_gather_into_tensor", "_all_gather_base")
count = 0


def counted(gather: object) -> object:
    """A collective that is counted."""

    def run(*arguments: object, **keywords: object) -> object:
        global count  # noqa: PLW0603 - what the collectives of all layers count up
        count += 1
        return gather(*arguments, **keywords)

    return run


for name in GATHERING:
    if hasattr(torch.distributed, name):
        setattr(torch.distributed, name, counted(getattr(torch.distributed, name)))

import deepspeed  # noqa: E402 - it takes the collectives when it is initialized

deepspeed.init_distributed("gloo")
shape = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=1, vocab_size=128, **shape))
config = {
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 100},
}
engine, *_ = deepspeed.initialize(model=model, config=config)
gathers = {}
for tokens in (2, 2, 6):  # in its first passes, the engine learns in which order it needs the weights
    count = 0
    engine.module.generate(
        torch.ones(1, 4, dtype=torch.long), min_new_tokens=tokens, max_new_tokens=tokens, synced_gpus=True
    )
    gathers[str(tokens)] = count
answer(gathers=gathers, rank=os.environ["RANK"])

"""What DeepSpeed says of a reference model that it gets as trl hands it over: ``reference_model.py SCHEDULER``.

``SCHEDULER`` is a section in JSON. The config is as TrainingArguments leave it; the Trainer fills in more later.
"""

from __future__ import annotations

import copy
import json
import sys

import deepspeed
import transformers
from answering import answer

config = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "weight_decay": "auto", "torch_adam": True}},
    "scheduler": json.loads(sys.argv[1]),
}
deepspeed.init_distributed("gloo")
arguments = transformers.TrainingArguments("out", deepspeed=config, per_device_train_batch_size=1)
shape = {"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4}
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(num_hidden_layers=1, vocab_size=128, **shape))
handed_over = copy.deepcopy(arguments.deepspeed_plugin.deepspeed_config)
try:
    deepspeed.initialize(model=model, config=handed_over)
except (TypeError, ValueError) as error:
    answer(raised=str(error))
else:
    answer(raised="")

"""1 where a head that the checkpoint lacks is initialised at ZeRO stage 3, 0 where it is memory as it was found.

A checkpoint of a Llama without a head is saved; a classifier is loaded from it under ZeRO-3. The spread of
its head has to be the `initializer_range` of the config.
"""

import os
import tempfile

import deepspeed
from transformers import LlamaConfig, LlamaForSequenceClassification, LlamaModel

try:
    from transformers.integrations import HfDeepSpeedConfig
except ImportError:  # before 4.33
    from transformers.deepspeed import HfDeepSpeedConfig

SPREAD, LABELS = 0.5, 64
deepspeed.init_distributed("gloo")
config = LlamaConfig(
    hidden_size=64,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    vocab_size=64,
    initializer_range=SPREAD,
)
with tempfile.TemporaryDirectory() as folder:
    LlamaModel(config).save_pretrained(folder)
    # has to be kept: from_pretrained looks for it through a weak reference
    kept = HfDeepSpeedConfig({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}})
    model = LlamaForSequenceClassification.from_pretrained(folder, num_labels=LABELS)
head = model.score.weight
with deepspeed.zero.GatheredParameters([head]):
    assert head.shape == (LABELS, config.hidden_size), head.shape
    spread = float(head.detach().float().std()) / SPREAD
if int(os.environ["RANK"]) == 0:
    print(f"{float(abs(spread - 1) < 0.1):.3f}")  # 4096 numbers: the spread is within some per cent

"""The arguments of ``LoraConfig`` and ``BitsAndBytesConfig`` in a script."""

from __future__ import annotations

import pytest

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.training_script import read_training_script

SCRIPT = """\
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, Trainer, TrainingArguments

packed = BitsAndBytesConfig(load_in_4bit=True, llm_int8_skip_modules=["lm_head"])
model = AutoModelForCausalLM.from_pretrained("gpt2", quantization_config=packed)
adapters = LoraConfig(r=4, target_modules=TARGETS, modules_to_save=["wte"])
Trainer(model=model, args=TrainingArguments("out", deepspeed="ds.json")).train()
"""


@pytest.mark.parametrize(
    ("targets", "found"),
    [
        ('["c_attn", "c_proj"]', ("c_attn", "c_proj")),
        ('{"c_attn"}', ("c_attn",)),
        ('"all-linear"', "all-linear"),
        ("None", None),
        ("[['c_attn'], 'c_proj']", UNKNOWN),
        ('{"c_attn": 1}', UNKNOWN),
        ("[name for name in names]", UNKNOWN),
    ],
)
def test_what_is_written_out_is_known_and_can_be_compared(targets, found):
    script = read_training_script(SCRIPT.replace("TARGETS", targets))
    assert dict(script.calls.adapters[0].options) == {"r": 4, "target_modules": found, "modules_to_save": ("wte",)}
    assert dict(script.calls.quantized.options)["llm_int8_skip_modules"] == ("lm_head",)
    # two launches of one project are grouped by what their scripts call
    assert hash(script.calls) == hash(read_training_script(SCRIPT.replace("TARGETS", targets)).calls)

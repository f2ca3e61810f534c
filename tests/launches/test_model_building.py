"""Whether a script builds the model that it trains in partitions at stage 3."""

from __future__ import annotations

import pytest

from ds_lint.launches.training_script import read_training_script

IMPORTS = """\
import deepspeed, torch
from accelerate import Accelerator
from transformers import AutoConfig, AutoModelForCausalLM, LlamaForCausalLM
from transformers import HfArgumentParser, Trainer, TrainingArguments
from transformers.integrations import HfDeepSpeedConfig
"""
LOAD = 'model = AutoModelForCausalLM.from_pretrained("x")\n'
TRAIN = 'engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="ds.json")\n'
CLASS = "class Net(torch.nn.Module): ...\n"
PREPARE = (
    "optimizer = torch.optim.AdamW(model.parameters())\noptimizer, model = accelerator.prepare(optimizer, model)\n"
)


@pytest.mark.parametrize(
    "script",
    [
        f'dschf = HfDeepSpeedConfig("ds.json")\n{LOAD}{TRAIN}',
        f'with deepspeed.zero.Init(config_dict_or_path="ds.json"):\n    {LOAD}{TRAIN}',
        f"{CLASS}def main():\n    with deepspeed.zero.Init():\n        model = Net()\n    {TRAIN}main()\n",
        f"accelerator = Accelerator()\n{LOAD}{PREPARE}",
        f"args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\n{LOAD}Trainer(model, args)\n",
        'from trl import SFTConfig, SFTTrainer\nSFTTrainer(model="Qwen/Qwen2.5-0.5B", args=SFTConfig("out"))\n',
    ],
)
def test_built_in_partitions(script):
    assert read_training_script(IMPORTS + script).calls.is_partitioned is True


@pytest.mark.parametrize(
    "script",
    [
        LOAD + TRAIN,
        f"{LOAD}model = model.to(torch.bfloat16)\nmodel.gradient_checkpointing_enable()\n{TRAIN}",
        f'HfDeepSpeedConfig("ds.json")\n{LOAD}{TRAIN}',  # nothing keeps it alive
        f'dschf = HfDeepSpeedConfig("ds.json")\nmodel = LlamaForCausalLM(AutoConfig.from_pretrained("x"))\n{TRAIN}',
        f"{CLASS}model = Net()\n{TRAIN}",
        f"def build(name):\n    return AutoModelForCausalLM.from_pretrained(name)\nmodel = build('x')\n{TRAIN}",
        f"{LOAD}accelerator = Accelerator()\n{PREPARE}",
        f'{LOAD}args = TrainingArguments("out", deepspeed="ds.json")\nTrainer(model=model, args=args)\n',
    ],
)
def test_built_whole(script):
    assert read_training_script(IMPORTS + script).calls.is_partitioned is False


@pytest.mark.parametrize(
    "script",
    [
        f"from models import build\nmodel = build()\n{TRAIN}",
        f"from utils import setup_deepspeed\nsetup_deepspeed()\n{LOAD}{TRAIN}",
        f"import sys\n{CLASS}with deepspeed.zero.Init(enabled=len(sys.argv) > 1):\n    model = Net()\n{TRAIN}",
        f"if deepspeed:\n    dschf = HfDeepSpeedConfig('ds.json')\n{LOAD}{TRAIN}",
    ],
)
def test_not_known(script):
    assert read_training_script(IMPORTS + script).calls.is_partitioned is None

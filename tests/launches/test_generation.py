"""Scripts that generate with an engine: on inputs that differ by rank, or on the same everywhere."""

from __future__ import annotations

import pytest

from ds_lint.launches.training_script import read_training_script

ENGINE = """\
import deepspeed
import torch
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig
kept = HfDeepSpeedConfig("ds.json")
model = AutoModelForCausalLM.from_pretrained("x")
engine = deepspeed.initialize(model=model, config="ds.json")[0]
rank = torch.distributed.get_rank()
"""
OWN = "inputs = tokenizer(prompts[rank], return_tensors='pt').to(engine.device)\n"
LOADER = "sampler = DistributedSampler(data)\nloader = DataLoader(data, sampler=sampler)\n"


def generations(script):
    return read_training_script(ENGINE + script).calls.generations


@pytest.mark.parametrize(
    "script",
    [
        f"{OWN}engine.module.generate(**inputs)\n",
        f"{OWN}engine.module.generate(inputs, max_new_tokens=9)\n",
        f"{OWN}engine.generate(inputs.input_ids, synced_gpus=False)\n",
        f"{OWN}model = engine.module\nmodel.generate(inputs)\n",
        "if rank == 0:\n    text = 'a'\nelse:\n    text = 'b'\nengine.module.generate(encode(text))\n",
        "for text in prompts[rank::world_size]:\n    engine.module.generate(encode(text))\n",
        f"{LOADER}for batch in loader:\n    engine.module.generate(batch['input_ids'])\n",
        "def answer(text):\n    return engine.module.generate(encode(text))\nanswer(prompts[rank])\n",
    ],
)
def test_ranks_may_generate_texts_of_different_lengths(script):
    if "**" in script:  # which may have anything
        assert generations(script) == ()
        return
    (found,) = generations(script)
    assert (found.is_switched_off, found.is_known) == ("synced_gpus=False" in script, True)


@pytest.mark.parametrize(
    "script",
    [
        f"{OWN}engine.module.generate(inputs, synced_gpus=True)\n",
        f"{OWN}engine.module.generate(inputs, synced_gpus=wanted)\n",
        f"{OWN}engine.module.generate(inputs, min_new_tokens=8, max_new_tokens=8)\n",
        f"{OWN}other.generate(inputs)\n",
        f"{OWN}if rank == 0:\n    engine.module.generate(inputs)\n",  # which is another finding
        "inputs = encode(prompts).to(rank)\nengine.module.generate(inputs)\n",
        "inputs = encode(prompts).to(torch.device('cuda', rank))\nengine.module.generate(inputs)\n",
        "engine.module.generate(encode('text'))\n",
    ],
)
def test_ranks_generate_the_same_or_wait(script):
    assert generations(script) == ()


def test_a_config_of_which_transformers_is_not_told():
    script = ENGINE.replace('kept = HfDeepSpeedConfig("ds.json")\n', "")
    (found,) = read_training_script(f"{script}{OWN}engine.module.generate(inputs)\n").calls.generations
    assert found.is_known is False

"""Scripts that run a model and do not train it, and those that may."""

from __future__ import annotations

import pytest

from ds_lint.launches.training_script import read_training_script

IMPORTS = """\
import deepspeed
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig
"""
KEPT = 'dschf = HfDeepSpeedConfig("ds.json")\nmodel = AutoModelForCausalLM.from_pretrained("x")\n'
LOADED = 'model = AutoModelForCausalLM.from_pretrained("x")\n'
ENGINE = 'engine = deepspeed.initialize(model=model, config="ds.json")[0]\n'


def inference(script):
    found = read_training_script(IMPORTS + script).calls.inference
    return found and found.function


@pytest.mark.parametrize(
    ("script", "function"),
    [
        ('engine = deepspeed.init_inference(model, config="ds.json")\n', "deepspeed.init_inference"),
        (f"{KEPT}{ENGINE}engine.module.eval()\nengine.module.generate(x)\n", "engine.module.generate"),
        (f"{KEPT}model.generate(x)\n", "model.generate"),
        (f"{LOADED}model, loader = accelerator.prepare(model, loader)\nmodel.generate(x)\n", "model.generate"),
    ],
)
def test_a_model_that_is_only_run(script, function):
    assert inference(script) == function


@pytest.mark.parametrize(
    "script",
    [
        f"{KEPT}{ENGINE}engine.backward(loss)\nengine.step()\nengine.module.generate(x)\n",
        f"{KEPT}{ENGINE}from loops import run\nrun(engine)\nengine.module.generate(x)\n",
        "from transformers import Trainer\nTrainer(model, args).train()\nmodel.generate(x)\n",
        "from experiments import go\ngo()\nmodel.generate(x)\n",
        f"{KEPT}{ENGINE}",
        f"{LOADED}model, optimizer = accelerator.prepare(model, optimizer)\nmodel.generate(x)\n",
        f"{LOADED}model, sgd = accelerator.prepare(model, SGD(x))\nmodel.generate(x)\n",
        f"{LOADED}model = accelerator.prepare(*everything)\nmodel.generate(x)\n",
    ],
)
def test_a_model_that_may_be_trained(script):
    assert inference(script) is None

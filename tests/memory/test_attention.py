"""The attention of a run whose script says nothing of it is the one that the class of its model takes unasked."""

from __future__ import annotations

import pytest
from launched_script import facts_of_script
from linted import config_of_dict

from ds_lint.facts import model
from ds_lint.footprint import attention
from ds_lint.knowledge.keys import Target

LOAD = "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B')"
SCRIPT = f"""\
from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments
{LOAD}
Trainer(model, TrainingArguments("out", deepspeed="ds.json")).train()
"""


def attention_of(text=SCRIPT, name="Qwen/Qwen2.5-7B", release="5.0.0", flags=""):
    facts = facts_of_script(text, flags)
    facts.model = model.load(name)
    return attention.of(config_of_dict({}, stack="trainer", facts=facts, target=Target(transformers=release)))


@pytest.mark.parametrize(("name", "kind"), [("Qwen/Qwen2.5-7B", "sdpa"), ("bigscience/bloom-7b1", "eager")])
def test_the_class_of_the_model_decides(name, kind):
    assert attention_of(name=name) == kind


def test_older_releases_are_not_known():
    assert attention_of(release="4.57.1") is None


@pytest.mark.parametrize(
    "changed",
    [
        LOAD.replace("B')", "B', attn_implementation=pick())"),
        LOAD.replace("B')", "B', **options())"),
        LOAD.replace("B')", "B', config=AutoConfig.from_pretrained('other'))"),
        f"{LOAD}\nmodel.set_attn_implementation('eager')",
        f"from patches import replace_with_flash\nreplace_with_flash()\n{LOAD}",
        "model = build()",
    ],
)
def test_a_script_that_may_choose_leaves_it_open(changed):
    assert attention_of(SCRIPT.replace(LOAD, changed)) is None


def test_what_is_said_counts():
    assert attention_of(SCRIPT.replace("B')", "B', attn_implementation='eager')")) == "eager"
    assert attention_of(flags="--attn_implementation flash_attention_2") == "flash_attention_2"

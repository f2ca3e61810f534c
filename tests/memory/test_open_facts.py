"""The facts that make a band wider, and what each answer leaves of it."""

from __future__ import annotations

import pytest
from linted import config_of_dict

from ds_lint.facts import Facts
from ds_lint.facts.parameter_count import stand_in
from ds_lint.footprint import setup
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.open_facts import open_facts
from ds_lint.footprint.untrained import Untrained

CONFIG = {
    "bf16": {"enabled": True},
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
    "train_micro_batch_size_per_gpu": 4,
    "zero_optimization": {"stage": 2},
}
KNOWN = {"attention": "sdpa", "is_checkpointed": True, "is_packed": True, "is_stand_in": False}


def wanted(config=None, **known):
    facts = Facts(world_size=8, nodes=1)
    facts.model, facts.sequence_length, facts.kernels = stand_in(7_000_000_000), 2048, known.pop("kernels", None)
    found = setup.of(config_of_dict(config or CONFIG, stack="deepspeed", facts=facts))
    return found._replace(**known)


def described(config=None, **known):
    return estimate(wanted(config, **known))


def named(found):
    return {fact.name: fact for fact in open_facts(found.setup)}


def test_what_is_not_known_is_named_with_the_option_that_gives_it():
    found = named(described())
    assert found["attention"].give == "--attention"
    assert found["activation checkpointing"].give == "--activation-checkpointing"
    assert found["kernels"].give == "--kernels"
    assert found["shapes of the model"].give == "--model"


def test_what_is_known_is_not_named():
    assert named(described(**KNOWN, kernels="transformers")) == {}


@pytest.mark.parametrize("name", ["attention", "activation checkpointing", "kernels", "shapes of the model"])
def test_an_answer_is_the_estimate_with_it(name):
    answers = {one.words: one.gpu for one in named(described())[name].answers}
    expected = {
        "attention": {"eager": described(attention="eager")},
        "activation checkpointing": {"on": described(is_checkpointed=True), "off": described(is_checkpointed=False)},
        "kernels": {"liger": described(kernels="liger"), "transformers": described(kernels="transformers")},
        "shapes of the model": {"as usual for its size": described(is_stand_in=False)},
    }[name]
    for words, found in expected.items():
        assert answers[words] == found.gpu_bytes


def test_an_optimizer_of_the_script_is_named():
    without = {name: value for name, value in CONFIG.items() if name != "optimizer"}
    assert next(one.words for one in named(described(without))["optimizer"].answers) == "adamw"


def test_with_all_known_the_most_is_little_more_than_the_least():
    peak = described(**KNOWN, kernels="transformers").peaks["step"].tensors
    assert peak.most <= 1.3 * peak.least


def test_of_inference_an_answer_is_the_same_run():
    """``init_inference`` divides the model among its ranks, and it is divided once, whatever is answered."""
    run = wanted(untrained=Untrained("generation", 4, 8192, 128, tensor_ranks=2, dtype="bf16"))
    found = {fact.name: fact for fact in open_facts(run)}
    assert not {"optimizer", "activation checkpointing", "lengths in a batch"} & found.keys()
    assert [one.gpu for one in found["attention"].answers if one.words == "eager"] == [
        estimate(run._replace(attention="eager")).gpu_bytes
    ]

"""What a config owes to the model that it is to train."""

from __future__ import annotations

import os

import pytest

from ds_lint.facts import model as models
from ds_lint.facts.model import Model
from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Target
from ds_lint.scaffold.model_needs import leaf_modules, size_to_write, trained_in

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def model(name: str) -> Model:
    return models.load(os.path.join(MODELS, name))


def size(name: str, stack: str) -> int | None:
    return size_to_write(model(name), stack, keys.knowledge())


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"dtype": "float32"}, None),
        ({"dtype": "float8_e4m3fn"}, None),
        ({}, None),
        ({"model_type": "t5", "dtype": "float32"}, "bf16"),
    ],
    ids=str,
)
def test_a_model_is_trained_in_what_it_was_trained_in(config, precision):
    assert trained_in(Model("", config)) == precision


def test_a_size_is_written_if_no_library_computes_it():
    assert size("llama", "deepspeed") == 4096
    assert size("llama", "accelerate") is None
    assert size("llama", "trainer") is None


def test_accelerate_does_not_look_into_a_model_of_several_modalities():
    assert size("vision_text", "accelerate") == 2560
    assert size("vision_text", "trainer") is None


def test_a_size_is_known_under_the_name_that_its_model_type_has_for_it():
    assert size("gpt2", "deepspeed") == 768
    assert size("gpt2", "accelerate") is None


def test_a_model_without_a_size_has_none():
    assert size_to_write(Model("", {}), "deepspeed", keys.knowledge()) is None


@pytest.mark.parametrize(
    ("name", "target", "leaves"),
    [
        ("phimoe", Target(transformers="4.57.6"), ("PhimoeSparseMoeBlock",)),
        ("phimoe", Target(transformers="5.0.0"), ()),  # its experts are one module, which all ranks run
        ("qwen3_moe", Target(transformers="4.57.6"), ()),  # a leaf module by default
        ("phimoe", Target("0.17.6", "4.57.6"), ()),  # DeepSpeed has no `leaf_module` yet
        ("llama", Target(transformers="4.57.6"), ()),
    ],
)
def test_leaf_modules_are_named_where_ranks_run_different_experts(name, target, leaves):
    assert leaf_modules(model(name), keys.knowledge(target)) == leaves

"""What a config owes to the model that it is to train."""

from __future__ import annotations

import os

import pytest

from ds_lint.facts import model as models
from ds_lint.facts.model import Model
from ds_lint.fitting import size_to_write, trained_in

MODELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")


def model(name: str) -> Model:
    return models.read(os.path.join(MODELS, name))


@pytest.mark.parametrize(
    ("config", "precision"),
    [
        ({"torch_dtype": "bfloat16"}, "bf16"),
        ({"dtype": "float16"}, "fp16"),
        ({"dtype": "float32"}, "fp32"),
        ({"dtype": "float8_e4m3fn"}, None),
        ({}, None),
        ({"model_type": "t5", "dtype": "float32"}, "bf16"),
    ],
    ids=str,
)
def test_a_model_is_trained_in_what_it_was_trained_in(config, precision):
    assert trained_in(Model("", config)) == precision


def test_a_size_is_written_where_nobody_works_it_out():
    assert size_to_write(model("llama"), "deepspeed") == 4096
    assert size_to_write(model("llama"), "accelerate") is None
    assert size_to_write(model("llama"), "trainer") is None


def test_accelerate_does_not_look_into_a_model_of_several_modalities():
    assert size_to_write(model("vision_text"), "accelerate") == 2560
    assert size_to_write(model("vision_text"), "trainer") is None


def test_a_model_without_a_size_has_none():
    assert size_to_write(Model("", {}), "deepspeed") is None

"""What quantized weights take, held to the storages that ``tools/quantized_layers.py`` counted in the real classes."""

from __future__ import annotations

import pytest

from ds_lint.facts import tensors
from ds_lint.facts.model import Model
from ds_lint.facts.packed_weights import of_files, packed_tensors
from ds_lint.knowledge import tables

STORE = tables.load("quantization")
HALF = 2  # bytes


def taken(model: Model, weights) -> tuple[int, float]:
    """The bytes of the parameters, and of what lies beside them."""
    frozen = [one._replace(is_trained=False) for one in tensors.of(model)]
    found = packed_tensors(frozen, model, weights, run="bfloat16", has_linear_experts=False)
    width = {True: lambda one: one.packed.width, False: lambda _one: HALF}
    sizes = sum(one.size * width[one.packed is not None](one) for one in found)
    return sizes, sum(one.packed.beside[1] for one in found if one.packed is not None)


@pytest.mark.parametrize("one", STORE["counted"], ids=lambda one: f"{one['model']}-{one['quantization']}")
def test_a_quantized_model_takes_what_was_counted(one):
    config = {"model_type": one["model"], **STORE["models"][one["model"]]}
    weights = of_files(
        Model("", {**config, "quantization_config": {"quant_method": "bitsandbytes", **one["quantization"]}})
    )
    assert taken(Model("", config), weights) == (one["parameters"], one["beside"])

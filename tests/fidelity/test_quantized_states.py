"""What a rank holds of a model with quantized weights is what ds-lint says, to the byte, in real engines.

transformers loads a small model with a ``BitsAndBytesConfig``, peft prepares it and adds adapters, and DeepSpeed trains
it as one of many ranks. ``schemas/quantization.json`` has storages of such models for where bitsandbytes is missing.
"""

from __future__ import annotations

import importlib.metadata

import pytest
from installed import measured_with_the_newest

pytest.importorskip("peft")
pytest.importorskip("deepspeed")
pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed; its build for CPUs is enough")

from holdings import WIDTHS, Case, differences, measure, measure_most

from ds_lint.footprint import quantized
from ds_lint.knowledge import tables
from tools import quantized_layers

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]

LORA = {"r": 3, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]}
SIZES = {"hidden_size": 64, "intermediate_size": 168}
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}
DOUBLE = {**NF4, "bnb_4bit_use_double_quant": True}
PACKED_AS_BF16 = {**DOUBLE, "bnb_4bit_quant_storage": "bfloat16"}
INT8 = {"load_in_8bit": True}
CPU = {"device": "cpu"}
BOTH = {"offload_optimizer": CPU, "offload_param": CPU}
TABLES = 2048  # bytes: bitsandbytes keeps one of each kind for all weights, of 16 and of 256 numbers
NONE_STAYS = {"stage3_param_persistence_threshold": 0}


def case(stage: int, ranks: int, quantization: dict, model: str = "llama", **more) -> Case:
    return Case(model, stage, ranks, lora=LORA, values=SIZES, quantization=quantization, **more)


CASES = [
    *(case(stage, 4, NF4) for stage in (0, 1, 2, 3)),
    *(case(stage, 4, INT8) for stage in (0, 2, 3)),
    *(case(3, 1, way, zero=NONE_STAYS) for way in (NF4, INT8)),
    case(3, 4, INT8, zero={"stage3_param_persistence_threshold": 5000}),
    case(2, 4, DOUBLE, zero={"offload_optimizer": CPU}),
    case(2, 1024, PACKED_AS_BF16, dtype="bf16", accumulation_steps=2),
    case(3, 8, PACKED_AS_BF16),
    case(3, 5, DOUBLE, zero=NONE_STAYS),
    case(3, 4, NF4, zero={"stage3_param_persistence_threshold": 3000}),
    case(3, 4, NF4, zero=BOTH),
    case(3, 4, INT8, zero={**BOTH, **NONE_STAYS}),
    case(1, 3, NF4, dtype="fp16"),
    case(2, 3, NF4, dtype="fp32"),
    case(2, 3, NF4, prepares=False),
    case(3, 8, NF4, zero={"zero_hpz_partition_size": 4, **NONE_STAYS}),
    case(2, 4, NF4, "qwen3_moe"),
    case(3, 4, DOUBLE, "qwen3"),
    case(2, 4, {**NF4, "llm_int8_skip_modules": ["lm_head", "mlp"]}),
]


def words(one: Case) -> str:
    return repr([value for value, usual in zip(one, Case("", -1, 0), strict=True) if value != usual])


@pytest.mark.parametrize("one", CASES, ids=words)
def test_states_with_quantized_weights(one):
    one, held = measure_most(one)
    assert differences(one, held) == []
    assert held.elements("other").get("float32", 0) * WIDTHS["float32"] <= TABLES


@pytest.mark.parametrize("one", [CASES[3], CASES[6]], ids=words)
def test_a_difference_is_noticed(one, monkeypatch):
    monkeypatch.setattr(quantized, "_beside", lambda _tensors: quantized.NOTHING)
    monkeypatch.setattr(quantized, "_keeps_whole", lambda _setup: False)
    assert differences(one, measure(one)) != []


@pytest.mark.skipif(
    importlib.metadata.version("bitsandbytes") != tables.load("quantization")["bitsandbytes"],
    reason="the stored counts are of another release of bitsandbytes",
)
@pytest.mark.parametrize("one", tables.load("quantization")["counted"][::5], ids=repr)
def test_stored_counts_are_those_of_the_installed_release(one):
    found = quantized_layers.held(one["model"], one["quantization"])
    assert found == {"parameters": one["parameters"], "beside": one["beside"]}


def test_layers_that_stay_are_those_of_the_installed_release():
    stays = tables.load("quantization")["stays"]
    for model_type in (*stays, "llama", "gpt2", "mixtral"):
        assert sorted(quantized_layers.left_alone(model_type)) == stays.get(model_type, [])

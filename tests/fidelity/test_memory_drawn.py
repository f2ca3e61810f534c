"""Model states of setups that are drawn at random are those of the real engine, from the ``config.json`` on.

The cases of ``test_memory_states.py`` are chosen, and take the parameters from the engine's own model. Here ds-lint has
two files, the config of the model and that of DeepSpeed, and the engine has the class of transformers.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from installed import measured_with_the_newest

pytest.importorskip("peft")
pytest.importorskip("deepspeed")

from holdings import Case, Held, differences, measure, measure_most

from ds_lint.facts import tensors
from ds_lint.facts.model import Model

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]

DRAWN = 200
CPU = {"device": "cpu"}
# Of each model, keys of its config with what they may be; the first one is as good as any.
MODELS: dict[str, dict[str, list[Any]]] = {
    "llama": {
        "attention_bias": [False, True],
        "mlp_bias": [False, True],
        "tie_word_embeddings": [False, True],
        "num_key_value_heads": [2, 1, 4],
        "head_dim": [None, 6],
    },
    "gpt2": {"n_inner": [None, 50], "n_layer": [2, 3], "tie_word_embeddings": [True, False]},
    "t5": {"feed_forward_proj": ["relu", "gated-gelu", "gated-silu"], "num_decoder_layers": [None, 1]},
    "bert": {"type_vocab_size": [2, 1]},  # untied, it has a bias that no gradient reaches
    "gemma": {"attention_bias": [False, True], "head_dim": [12, 8]},
    "bloom": {"n_layer": [2, 3]},
    "phi": {"qk_layernorm": [False, True], "num_key_value_heads": [None, 2]},
    "mixtral": {"num_local_experts": [3, 5], "tie_word_embeddings": [False, True]},
    "qwen3_moe": {"attention_bias": [False, True], "num_experts": [5, 4]},
    "deepseek_v3": {"first_k_dense_replace": [1, 2], "num_hidden_layers": [3, 4], "q_lora_rank": [13, None]},
    "gpt_bigcode": {"multi_query": [True, False], "n_inner": [None, 41], "tie_word_embeddings": [True, False]},
    "falcon": {
        "new_decoder_architecture": [False, True],
        "multi_query": [True, False],
        "parallel_attn": [True, False],
        "bias": [False, True],
    },
    "cohere": {"use_qk_norm": [False, True], "attention_bias": [False, True]},
    "stablelm": {"qk_layernorm": [False, True], "use_qkv_bias": [False, True], "use_parallel_residual": [False, True]},
    "starcoder2": {"use_bias": [True, False], "tie_word_embeddings": [True, False]},
    "gpt_neox": {"attention_bias": [True, False]},
    "qwen2": {"tie_word_embeddings": [False, True]},
    "qwen3": {"attention_bias": [False, True], "tie_word_embeddings": [False, True]},
    "olmo2": {"attention_bias": [False, True]},
}
NOT_WITHIN_ZERO_INIT = ("bert", "gemma", "cohere", "olmo2")
TARGETS = ["q_proj", "v_proj"]
ADAPTED = (
    "llama",
    "gemma",
    "phi",
    "mixtral",
    "qwen3_moe",
    "cohere",
    "stablelm",
    "starcoder2",
    "qwen2",
    "qwen3",
    "olmo2",
)
FROZEN = ("embed", "bias", "norm", "attn", "wte")
OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("AdamW", {"lr": 1e-3}),
    ("Adam", {"lr": 1e-3}),
    ("AdamW", {"lr": 1e-3, "torch_adam": True}),
    ("Lion", {"lr": 1e-3}),
    ("Adagrad", {"lr": 1e-3}),
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("Lamb", {"lr": 1e-3}),
    ("RMSprop", {"lr": 1e-3, "momentum": 0.5}),
    ("Muon", {"lr": 1e-3}),
]


def draw(seed: int) -> Case:
    """One setup: a model, ranks, precision, an optimizer, and keys of DeepSpeed."""
    dice = random.Random(seed)
    model = dice.choice(list(MODELS))
    stage, ranks = dice.choice([0, 1, 1, 2, 2, 2, 3, 3, 3]), dice.choice([1, 2, 3, 5, 8])
    dtype = dice.choice(["bf16", "bf16", "fp16", "fp32"])
    optimizer, parameters = dice.choice(OPTIMIZERS)
    zero = _zero(dice, stage, ranks)
    if optimizer == "Lamb" and dtype == "bf16":  # which DeepSpeed refuses
        dtype = "fp16"
    if optimizer == "Muon" and dtype == "fp16":  # of gradients of zeros it makes no numbers, so no step comes
        dtype = "bf16"
    if optimizer == "Muon":
        zero["reduce_scatter"] = False
    way = dice.random()
    return Case(
        model, stage, ranks, dtype,
        zero=zero,
        config=_precision(dice, stage, dtype),
        optimizer=optimizer,
        parameters=parameters,
        accumulation_steps=dice.choice([1, 1, 2, 3]),
        lora={"r": 3, "lora_alpha": 6, "target_modules": TARGETS} if way < 0.15 and model in ADAPTED else None,
        by_trainer=0.15 <= way < 0.3 and optimizer != "Muon",
        zero_init=stage == 3 and model not in NOT_WITHIN_ZERO_INIT and dice.random() < 0.6,
        values={key: dice.choice(values) for key, values in MODELS[model].items() if dice.random() < 0.7},
        frozen=dice.choice(FROZEN) if 0.3 <= way < 0.45 else "",
    )  # fmt: skip


def _zero(dice: random.Random, stage: int, ranks: int) -> dict[str, Any]:
    keys: dict[str, list[Any]] = {
        "overlap_comm": [False, True],
        "contiguous_gradients": [True, False],
        "reduce_bucket_size": [1000, 700, 5000, 100_000],
        "allgather_bucket_size": [1000, 5_000_000],
    }
    if stage in (1, 2):
        keys |= {"round_robin_gradients": [False, True], "parameter_alignment": [False, True]}
        keys |= {"offload_optimizer": [None, CPU, {**CPU, "pin_memory": True}]}
    if stage == 3:
        keys |= {
            "stage3_param_persistence_threshold": [0, 40, 100, 3000, 100_000],
            "stage3_model_persistence_threshold": [10_000, 500],
            "sub_group_size": [1000, 30_000, 1_000_000_000],
            "offload_optimizer": [None, CPU, {**CPU, "ratio": 0.5}],
            "offload_param": [None, CPU],
            "stage3_prefetch_bucket_size": [0, 3000],
            "zero_hpz_partition_size": [1, ranks],
        }
    drawn = {key: dice.choice(values) for key, values in keys.items() if dice.random() < 0.4}
    return {key: value for key, value in drawn.items() if value is not None}


def _precision(dice: random.Random, stage: int, dtype: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if dice.random() < 0.25 and stage:
        found["data_types"] = {"grad_accum_dtype": dice.choice(["fp32", dtype])}
    if dice.random() < 0.15:
        found["communication_data_type"] = dice.choice(["fp32", "fp16", "bf16"])
    if dice.random() < 0.15 and dtype != "fp32":
        found[dtype] = {f"{dtype}_master_weights_and_grads": True}
        if dtype == "bf16" and dice.random() < 0.5:
            found[dtype]["bf16_optimizer_states"] = True
    if dice.random() < 0.2:
        found["gradient_clipping"] = 1.0
    return found


def as_ds_lint_reads(case: Case, held: Held) -> Held:
    """The same with the parameters that the model has by its ``config.json``; with adapters, those of the engine."""
    if case.lora:
        return held
    found = tensors.of(Model("", case.model_config | {"architectures": None}))
    return held._replace(
        tensors=tuple(one._replace(is_trained=not case.frozen or case.frozen not in one.name) for one in found)
    )


@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_setups(seed):
    case = draw(seed)
    try:
        measure(case)
    except AssertionError as error:
        pytest.skip(f"DeepSpeed does not train this: {str(error).strip().splitlines()[-1]}")
    case, held = measure_most(case)
    read = as_ds_lint_reads(case, held)
    assert [one.size for one in read.tensors] == [one.size for one in held.tensors]
    assert differences(case, read) == []

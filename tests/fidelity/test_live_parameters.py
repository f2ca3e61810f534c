"""What stage 3 gathers at once, by arithmetic and in engines on two ranks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from ranks import run

from ds_lint.facts.shapes import in_order, kinds
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint.live import live_parameters
from ds_lint.footprint.setup import TrainingSetup

pytestmark = [pytest.mark.fidelity, pytest.mark.long]

LLAMA = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "tie_word_embeddings": False,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 300, "n_embd": 64, "n_layer": 5, "n_head": 4}
MIXTURE = LLAMA | {
    "model_type": "qwen3_moe",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
T5 = {"model_type": "t5", "vocab_size": 300, "d_model": 64, "d_ff": 128, "num_layers": 3, "num_heads": 4, "d_kv": 16}
T5["decoder_start_token_id"] = 0  # which published configs have, and the class does not
CLASSES = {
    "llama": "LlamaForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "t5": "T5ForConditionalGeneration",
}
BUCKETS = [  # elements: prefetch bucket, most live, reuse distance, persistence threshold
    (50_000_000, 1_000_000_000, 1_000_000_000, 100),
    (0, 1_000_000_000, 0, 100),
    (20_000, 1_000_000_000, 0, 100),
    (20_000, 60_000, 30_000, 100),
    (100_000, 50_000, 100_000, 5_000),
]


def jobs(model: dict) -> list[dict]:
    return [
        {
            "model": model,
            "class": CLASSES[model["model_type"]],
            "is_checkpointed": is_checkpointed,
            "config": {
                "train_micro_batch_size_per_gpu": 1,
                "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
                "bf16": {"enabled": True},
                "zero_optimization": {
                    "stage": 3,
                    "stage3_prefetch_bucket_size": prefetch,
                    "stage3_max_live_parameters": live,
                    "stage3_max_reuse_distance": reuse,
                    "stage3_param_persistence_threshold": persistent,
                },
            },
        }
        for prefetch, live, reuse, persistent in BUCKETS
        for is_checkpointed in (False, True)
    ]


def setup_of(tensors: Iterable[Tensor], model: dict[str, Any], zero: dict[str, Any]) -> TrainingSetup:
    """The run of two ranks at stage 3, by its ``zero_optimization``."""
    return TrainingSetup(
        tensors=tuple(tensors),
        ranks=2,
        nodes=1,
        stage=3,
        architecture=model,
        persistence_threshold=zero["stage3_param_persistence_threshold"],
        prefetch_bucket=zero["stage3_prefetch_bucket_size"],
        max_live_parameters=zero["stage3_max_live_parameters"],
        max_reuse_distance=zero["stage3_max_reuse_distance"],
    )


@pytest.mark.parametrize("model", [LLAMA, GPT2, MIXTURE, T5], ids=lambda model: model["model_type"])
def test_what_engines_gather(model):
    wanted = jobs(model)
    found = run("live_parameters", json.dumps(wanted), timeout=400)
    assert found.is_complete, found.errors
    off = []
    for job, engine in zip(wanted, found.answers[0]["live"], strict=True):
        zero = job["config"]["zero_optimization"]
        for tensors in ([Tensor(*one) for one in engine["tensors"]], by_shapes(model)):
            setup = setup_of(tensors, model, zero)._replace(is_checkpointed=job["is_checkpointed"])
            band = live_parameters(setup)
            print(model["model_type"], list(zero.values())[1:], job["is_checkpointed"], engine["most"], band)
            assert band.least <= engine["most"] <= band.most, (zero, engine["most"], band)
            off.append(abs(band.likely / engine["most"] - 1))
    assert sorted(off)[len(off) // 2] < 0.05


def by_shapes(model: dict) -> list[Tensor]:
    return [Tensor(kind.name, kind.size) for kind in in_order(kinds(model) or [])]

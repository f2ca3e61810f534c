"""What stage 3 gathers at once, by hand; tests/fidelity/test_live_parameters.py holds it to real engines."""

from __future__ import annotations

import pytest

from ds_lint.facts.shapes import in_order, kinds
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint.band import NOTHING, Band
from ds_lint.footprint.live import live_parameters, modules
from ds_lint.footprint.partition import persistent
from ds_lint.footprint.setup import Offload, TrainingSetup

TENSORS = (
    Tensor("embed.weight", 5000),
    Tensor("layers.0.norm.weight", 10),
    Tensor("layers.0.up.weight", 800),
    Tensor("layers.0.up.bias", 200),
    Tensor("layers.1.norm.weight", 10),
    Tensor("layers.1.up.weight", 800),
    Tensor("layers.1.up.bias", 200),
    Tensor("lm_head.weight", 5000),
)
SETUP = TrainingSetup(
    tensors=TENSORS,
    ranks=4,
    nodes=1,
    stage=3,
    architecture={},
    persistence_threshold=100,
    prefetch_bucket=0,
    max_reuse_distance=0,
    is_checkpointed=False,
)


def test_one_module_is_whole_without_prefetch():
    assert live_parameters(SETUP) == Band(5000, 5000, 10500)


def test_what_is_used_again_soon_stays():
    assert live_parameters(SETUP._replace(max_reuse_distance=10**9)) == Band(10800, 12000, 12000)


def test_one_rank_gathers_what_lies_in_host_memory():
    alone = SETUP._replace(ranks=1, max_reuse_distance=10**9, prefetch_bucket=1)
    assert live_parameters(alone) == NOTHING
    assert live_parameters(alone._replace(parameter_offload=Offload("cpu"))) == Band(5000, 12000, 12000)


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


@pytest.mark.parametrize(
    ("prefetch", "most_live", "reuse", "threshold", "measured"),
    [  # with DeepSpeed 0.19.8 on two ranks
        (50_000_000, 10**9, 10**9, 100, 323584),
        (0, 10**9, 0, 100, 32768),
        (20_000, 10**9, 0, 100, 323584),  # what the prefetch finds gathered already is not released
        (20_000, 60_000, 30_000, 100, 88064),
        (100_000, 50_000, 100_000, 5_000, 73728),
    ],
)
def test_what_an_engine_gathered(prefetch, most_live, reuse, threshold, measured):
    band = live_parameters(
        SETUP._replace(
            tensors=tuple(Tensor(kind.name, kind.size) for kind in in_order(kinds(LLAMA))),
            prefetch_bucket=prefetch,
            max_live_parameters=most_live,
            max_reuse_distance=reuse,
            persistence_threshold=threshold,
        )
    )
    assert band.least <= measured <= band.most
    assert band.likely == pytest.approx(measured, rel=0.03)


def test_persistent_parameters_are_not_counted_and_have_a_cap():
    assert persistent(SETUP) == [tensor.size == 10 for tensor in TENSORS]
    assert sum(persistent(SETUP._replace(persistence_total=15))) == 1
    assert live_parameters(SETUP._replace(persistence_threshold=10**6)) == NOTHING


def test_below_stage_3_nothing_is_gathered():
    assert live_parameters(SETUP._replace(stage=2)) == NOTHING


def test_layers_by_kind_are_told_apart():
    of_kinds = (
        Tensor("embed.weight", 50),
        *[Tensor("layers.#.mlp.experts.up", 300), Tensor("layers.#.mlp.experts.down", 300)] * 2,
    )
    assert [module.layer for module in modules(of_kinds)] == [None, 0, 1]
    experts = tuple(Tensor(f"layers.0.mlp.experts.{one}.up.weight", 100) for one in range(8))
    assert len(modules(experts)) == 8
    assert len(modules(experts, are_experts_one=True)) == 1
    assert live_parameters(SETUP._replace(tensors=experts, persistence_threshold=0))[:2] == (720, 800)

"""Passes without autograd, the cache of generation, and what is counted of runs that do not train."""

from __future__ import annotations

import pytest

from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import forward, inference
from ds_lint.footprint.activations import Pass, activations
from ds_lint.footprint.aligned_loss import with_loss
from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.forward import ForwardPass
from ds_lint.footprint.setup import TrainingSetup
from ds_lint.footprint.untrained import Untrained

LLAMA = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
}  # fmt: skip
KEYS_OF_A_TOKEN = 32 * 2 * 8 * 128  # layers, keys and values, heads, their size


def setup_with(work, **changed):
    tensors = (Tensor("model.embed_tokens.weight", 4096), Tensor("model.layers.0.mlp.up_proj.weight", 2**20))
    usual = {"tensors": tensors, "ranks": 1, "nodes": 1, "stage": 3, "architecture": LLAMA}
    return TrainingSetup(**{**usual, **changed}, untrained=work)


@pytest.mark.parametrize(("dtype", "width"), [("bf16", 2), ("fp32", 4)])
def test_a_cache_has_keys_and_values_of_every_token(dtype, width):
    assert forward.cache(LLAMA, 4, 1000, dtype) == exactly(4 * 1000 * KEYS_OF_A_TOKEN * width)


def test_a_model_without_a_number_of_key_heads_has_as_many_as_heads():
    """Llama-13B has 40 heads, and its config.json no number of key heads: not the 32 of the class."""
    larger = {name: value for name, value in LLAMA.items() if name != "num_key_value_heads"}
    larger |= {"hidden_size": 5120, "num_attention_heads": 40, "num_hidden_layers": 40}
    assert forward.cache(larger, 1, 1, "bf16") == exactly(40 * 2 * 5120 * 2)


@pytest.mark.parametrize(
    ("config", "tokens"),
    [
        ({"model_type": "mistral", "sliding_window": 100}, 100),
        ({"model_type": "mistral", "sliding_window": None}, 1000),
        ({"model_type": "gemma2", "sliding_window": 100, "head_dim": 128}, 550),  # every second layer
        ({"model_type": "llama", "sliding_window": 100, "layer_types": ["full_attention"] * 32}, 1000),
        ({"model_type": "qwen2", "sliding_window": 100, "use_sliding_window": False}, 1000),
    ],
)
def test_layers_with_a_window_keep_its_tokens(config, tokens):
    assert forward.cache(LLAMA | config, 1, 1000, "bf16") == exactly(tokens * KEYS_OF_A_TOKEN * 2)


def test_a_window_of_a_type_that_was_not_measured_may_be_of_any_layer():
    band = forward.cache(LLAMA | {"model_type": "unheard", "sliding_window": 100}, 1, 1000, "bf16")
    assert (band.least, band.most) == (100 * KEYS_OF_A_TOKEN * 2, 1000 * KEYS_OF_A_TOKEN * 2)


def test_deepseek_keeps_the_compressed_keys():
    config = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128}
    assert forward.cache(LLAMA | config | {"model_type": "deepseek_v2"}, 1, 10, "bf16") == exactly(32 * 10 * 2 * 576)


def test_an_evaluation_has_the_logits_of_all_tokens():
    band = forward.activations(LLAMA, ForwardPass("evaluation", 8, 4096))
    assert band.likely == pytest.approx(8 * 4096 * 128256 * 10, rel=0.01)  # in 16 bit, in fp32 and after the softmax
    without = forward.activations(LLAMA, ForwardPass("evaluation", 8, 4096, has_logits=False))
    assert without.likely < band.likely / 10


def test_inference_ranks_have_a_part_of_the_matrices():
    served = setup_with(Untrained("generation", 1, 8, 8, tensor_ranks=2))
    assert [one.size for one in inference.without_training(served).tensors] == [4096, 2**19]


def test_the_kernels_of_deepspeed_allocate_their_workspace_at_once():
    served = setup_with(Untrained("generation", 8, 100, 10, tensor_ranks=2, workspace=2048, dtype="fp16"))
    tokens = 2048 * 2
    held = tokens * 8 * (10 * 4096 + 16 * 2048 + 32 * (4096 // 2) * 2)
    assert estimate(served).parts["key_value_cache"].gpu.bytes == exactly(held)


def test_logits_go_to_the_host_after_some_batches():
    work = Untrained("evaluation", 2, 512, keeps_logits=True)
    kept = [
        inference.computed(setup_with(one, ranks=4), one).kept.most
        for one in (work._replace(keeps_logits=False), work, work._replace(kept_batches=3))
    ]
    batch = 2 * 512 * 128256 * 2
    assert kept == [0, batch * (5 + 2 * 4), batch * (5 + 2 * 3 * 4)]


def test_another_loss_takes_the_place_of_the_logits():
    computed = Pass(2, 4096, is_checkpointed=True)
    whole, layers = (activations(LLAMA, computed, are_logits_freed=freed) for freed in (False, True))
    entries = 2 * 4096 * 128256
    found = with_loss(whole, layers, Band(0, 6, 20), LLAMA, computed)
    assert found.likely == max(layers.likely, whole.likely - 6 * entries)
    assert found.most == whole.most + 8 * entries
    assert with_loss(NOTHING, layers, exactly(0), LLAMA, computed) == layers

"""What a config.json is made small to."""

from __future__ import annotations

import json
import os

import pytest

from ds_lint.smoke.records.small_model import SWAPPED, TINY, Change, shrink

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")

LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192},
}


def test_every_size_is_small_and_the_rest_stays():
    small = shrink(LLAMA).config
    assert small == {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": 128,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,  # four query heads to each, as before
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8},
    }


def test_the_changes_are_told_with_dotted_keys():
    changes = shrink(LLAMA).changes
    assert Change("hidden_size", 4096, 64) in changes
    assert Change("rope_scaling.original_max_position_embeddings", 8192, 8) in changes
    assert Change("torch_dtype", "bfloat16", None) in changes
    assert not {"model_type", "rms_norm_eps", "rope_scaling"} & {change.key for change in changes}


def test_the_given_config_stays_as_it_is():
    given = json.loads(json.dumps(LLAMA))
    shrink(given)
    assert given == LLAMA


def test_a_small_config_is_not_changed():
    small = shrink(LLAMA)
    assert shrink(small.config).changes == []


def test_what_is_small_does_not_grow():
    config = {"hidden_size": 48, "num_attention_heads": 3, "num_hidden_layers": 1, "vocab_size": 100}
    assert shrink(config).config == config


@pytest.mark.parametrize(
    ("heads", "shared", "expected"),
    [
        (32, 32, (4, 4)),  # none shared
        (32, 8, (4, 1)),
        (64, 32, (4, 2)),
        (28, 4, (4, 1)),
        (71, 1, (4, 1)),  # one for all
        (9, 3, (4, 1)),
        (3, 1, (2, 1)),  # three do not divide 64
    ],
)
def test_query_heads_share_key_heads_as_before(heads, shared, expected):
    config = {"hidden_size": 4096, "num_attention_heads": heads, "num_key_value_heads": shared}
    small = shrink(config).config
    assert (small["num_attention_heads"], small["num_key_value_heads"]) == expected


def test_embeddings_stay_narrower_than_the_layers():
    narrow = {"embedding_size": 128, "hidden_size": 4096}
    assert shrink(narrow).config == {"embedding_size": 32, "hidden_size": 64}
    as_wide = {"word_embed_proj_dim": 4096, "hidden_size": 4096}
    assert shrink(as_wide).config == {"word_embed_proj_dim": 64, "hidden_size": 64}


def test_a_layer_of_every_kind_is_left():
    config = {"num_hidden_layers": 26, "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 4 + ["x"] * 2}
    small = shrink(config).config
    assert small["layer_types"] == ["sliding_attention", "full_attention", "x"]
    assert small["num_hidden_layers"] == 3


def test_lists_by_layer_lose_the_same_layers():
    config = {
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention"],
        "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "intermediate_size": [1000, 2000, 3000, 4000],
        "per_layer_config": {"03": {"head_dim": 512}},
    }
    assert shrink(config).config == {  # the first layer and the last
        "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"],
        "mlp_layer_types": ["dense", "sparse"],
        "intermediate_size": [128, 128],
        "per_layer_config": {"1": {"head_dim": 16}},
    }


def test_positions_and_periods_of_layers_are_those_of_fewer_layers():
    config = {
        "num_hidden_layers": 32,
        "attn_layer_indices": [9, 18, 27],
        "mlp_only_layers": [],
        "cross_attention_layers": [1, 5],
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "first_k_dense_replace": 3,
    }
    small = shrink(config).config
    assert small["attn_layer_indices"] == [1]
    assert small["mlp_only_layers"] == []
    assert small["cross_attention_layers"] == [1]
    assert (small["attn_layer_period"], small["attn_layer_offset"], small["first_k_dense_replace"]) == (2, 1, 1)


def test_experts_are_few_and_fewer_are_chosen():
    config = {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": True}
    small = shrink(config).config
    assert small == {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 128, "norm_topk_prob": True}


def test_special_tokens_are_in_the_vocabulary_and_different():
    config = {"vocab_size": 151936, "bos_token_id": 151643, "eos_token_id": [151645, 151643], "pad_token_id": 1}
    small = shrink(config).config
    assert small["pad_token_id"] == 1
    assert small["bos_token_id"] < 128
    assert len(set(small["eos_token_id"])) == 2
    assert small["bos_token_id"] == small["eos_token_id"][1]


def test_a_window_is_smaller_than_a_sequence():
    assert shrink({"sliding_window": 4096}).config == {"sliding_window": TINY.window}
    assert shrink({"sliding_window": None}).config == {"sliding_window": None}


def test_lists_of_a_rope_have_the_length_of_a_head():
    config = {
        "hidden_size": 3072,
        "num_attention_heads": 32,
        "max_position_embeddings": 131072,
        "original_max_position_embeddings": 4096,
        "rope_scaling": {"type": "longrope", "short_factor": [1.0] * 48, "long_factor": [2.0] * 48},
    }
    small = shrink(config).config
    assert small["rope_scaling"] == {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    assert small["original_max_position_embeddings"] == 4  # of 128, as 4096 of 131072


def test_the_sections_of_a_rope_add_up_to_half_a_head():
    config = {"hidden_size": 3584, "num_attention_heads": 28, "rope_scaling": {"mrope_section": [16, 24, 24]}}
    assert sum(shrink(config).config["rope_scaling"]["mrope_section"]) == 8


def test_latent_attention_keeps_its_heads_together():
    config = {
        "hidden_size": 7168,
        "num_attention_heads": 128,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "qk_head_dim": 192,
        "head_dim": 64,
        "kv_lora_rank": 512,
    }
    small = shrink(config).config
    assert small["qk_head_dim"] == small["qk_nope_head_dim"] + small["qk_rope_head_dim"] == 24
    assert small["head_dim"] == small["qk_rope_head_dim"]


def test_the_parts_of_a_config_shrink_too():
    with open(os.path.join(MODELS, "vision_text", "config.json"), encoding="utf-8") as file:
        small = shrink(json.load(file)).config
    assert small["text_config"] == {"model_type": "gemma3_text", "hidden_size": 64}
    assert small["vision_config"] == {"hidden_size": 64}


def test_quantisation_and_remote_code_are_left_out():
    config = {"quantization_config": {"bits": 4}, "auto_map": {"AutoConfig": "x.Y"}, "_name_or_path": "a/b"}
    assert shrink(config).config == {}


def test_swapped_sizes_leave_more_than_a_mebibyte_to_each_of_four_ranks():
    small = shrink(LLAMA, SWAPPED).config
    assert small["vocab_size"] * small["hidden_size"] * 2 // 4 >= 2**20

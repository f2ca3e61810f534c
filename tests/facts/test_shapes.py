"""How many parameters a model has by its config.json alone: the counts that were published with the weights."""

from __future__ import annotations

import json
import re

import pytest

from ds_lint.facts.model import load
from ds_lint.facts.shapes import count, in_order, kinds
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables

LLAMA_3_8B = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
QWEN2_7B = {
    "model_type": "qwen2",
    "vocab_size": 152064,
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
}
MIXTRAL_8X7B = {"model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_key_value_heads": 8}
GLM4_9B = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "hidden_size": 4096,
    "num_layers": 40,
    "padded_vocab_size": 151552,
    "ffn_hidden_size": 13696,
    "num_attention_heads": 32,
    "kv_channels": 128,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "add_bias_linear": False,
    "add_qkv_bias": True,
}
CHATGLM3_6B = GLM4_9B | {"num_layers": 28, "padded_vocab_size": 65024}


@pytest.mark.parametrize(
    ("config", "published"),
    [
        (LLAMA_3_8B, 8_030_261_248),
        (QWEN2_7B, 7_615_616_512),
        (MIXTRAL_8X7B, 46_702_792_704),
        (GLM4_9B, 9_399_951_360),
        (CHATGLM3_6B, 6_243_584_000),
        ({"model_type": "gpt2"}, 124_439_808),
    ],
    ids=["llama", "qwen2", "mixtral", "glm4", "chatglm3", "gpt2"],
)
def test_the_count_is_that_of_the_published_weights(config, published):
    assert count(config) == published


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"model_type": "own"},
        {"model_type": ["llama"]},
        GLM4_9B | {"add_bias_linear": True},
        {name: value for name, value in GLM4_9B.items() if name != "padded_vocab_size"},
        LLAMA_3_8B | {"hidden_size": None},
    ],
    ids=["nothing", "own", "no word", "another layer", "a size is missing", "null"],
)
def test_what_is_not_described_is_not_counted(config):
    assert count(config) is None


def test_a_class_with_another_head_has_at_least_the_trunk():
    classifier = LLAMA_3_8B | {"architectures": ["LlamaForSequenceClassification"]}
    assert count(classifier) == count(LLAMA_3_8B) - 128256 * 4096


def test_every_part_of_several_modalities_is_counted():
    config = tables.load("published_models")["models"]["Qwen/Qwen2.5-VL-7B-Instruct"]
    names = {kind.name.split(".")[1] for kind in kinds(config)}
    assert {"visual", "language_model"} <= names
    flat = {name: value for name, value in config.items() if name != "text_config"} | config["text_config"]
    assert count(flat) == count(config) == 8_292_166_656


def test_of_unknown_modalities_the_text_is_counted():
    both = {"model_type": "own", "text_config": LLAMA_3_8B, "vision_config": {"hidden_size": 1024}}
    assert count(both) == count(LLAMA_3_8B)


def test_experts_come_after_the_dense_layers():
    config = {"model_type": "deepseek_v3", "num_hidden_layers": 4, "first_k_dense_replace": 1}
    layers = [[]]
    for kind in in_order(kinds(config))[1:]:
        layers += [[]] if kind.name.endswith("q_a_proj.weight") else []
        layers[-1].append(kind.name)
    assert [any("experts" in name for name in layer) for layer in layers[1:]] == [False, True, True, True]


def test_another_name_of_a_key_counts():
    few, many = ({"model_type": "qwen3_moe", name: 16} for name in ("num_experts", "num_local_experts"))
    assert count(few) == count(many) < count({"model_type": "qwen3_moe"})


def test_a_name_that_the_class_sets_last_counts():
    wide = {"model_type": "bloom", "n_embed": 128, "n_layer": 2}
    assert count(wide | {"hidden_size": 64}) == count({"model_type": "bloom", "hidden_size": 128, "n_layer": 2})


@pytest.mark.parametrize(
    ("word", "names"),
    [("relu", {"wi", "wo"}), ("gated-gelu", {"wi_0", "wi_1", "wo"}), ("gated-silu", {"wi_0", "wi_1", "wo"})],
)
def test_the_gate_of_t5_follows_from_its_activation(word, names):
    found = kinds({"model_type": "t5", "feed_forward_proj": word})
    assert {kind.name.split(".")[-2] for kind in found if "DenseReluDense" in kind.name} == names


@pytest.mark.parametrize(
    ("model_type", "switch", "before", "after"),
    [
        ("llama", "attention_bias", "q_proj.weight", "q_proj.bias"),
        ("gpt_bigcode", "multi_query", "ln_1.bias", "c_attn.weight"),
        ("falcon", "bias", "query_key_value.weight", "query_key_value.bias"),
        ("qwen3_moe", "attention_bias", "k_proj.weight", "k_proj.bias"),
    ],
)
def test_a_parameter_with_a_condition_stands_where_the_class_has_it(model_type, switch, before, after):
    config = {"model_type": model_type, "num_attention_heads": 32, switch: True}
    names = [kind.name for kind in in_order(kinds(config))]
    place = next(place for place, name in enumerate(names) if name.endswith(after))
    assert names[place - 1].endswith(before)


def test_parameters_that_are_numbered_within_a_layer_stand_together():
    config = {"model_type": "stablelm", "qk_layernorm": True, "num_hidden_layers": 2, "num_attention_heads": 4}
    names = [kind.name for kind in in_order(kinds(config | {"num_key_value_heads": 2, "hidden_size": 64}))]
    norms = [name.split(".")[4] for name in names if "norms.#" in name]
    assert norms == 2 * (4 * ["q_layernorm"] + 2 * ["k_layernorm"])


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"num_attention_heads": 0}, "`num_attention_heads` is 0"),
        ({"num_key_value_heads": 0}, "`num_key_value_heads` is 0"),
        ({"hidden_size": -4096}, "`hidden_size` is -4096"),
        ({"hidden_size": "4096"}, "`hidden_size` is '4096' and not a number"),
        ({"num_hidden_layers": [2]}, "`num_hidden_layers` is '[2]' and not a number"),
        ({"vocab_size": 10**400}, "`vocab_size` is a number of too many digits"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_a_config_that_makes_no_model_is_refused_in_words(broken, words, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_3_8B | broken))
    with pytest.raises(UnreadableFact, match=re.escape(words)):
        load(str(tmp_path))


def test_each_case_of_a_model_type_has_its_shapes():
    opt = {"model_type": "opt", "hidden_size": 64, "word_embed_proj_dim": 32}
    assert "model.decoder.project_in.weight" in {kind.name for kind in kinds(opt)}
    assert "model.decoder.project_in.weight" not in {kind.name for kind in kinds(opt | {"word_embed_proj_dim": 64})}
    compressed, whole = ({"model_type": "deepseek_v2", "q_lora_rank": rank} for rank in (1536, None))
    assert {kind.name for kind in kinds(compressed)} ^ {kind.name for kind in kinds(whole)} > {
        "model.layers.#.self_attn.q_proj.weight"
    }


def test_parameters_come_layer_by_layer():
    names = [kind.name.rpartition("layers.#.")[2] for kind in in_order(kinds(LLAMA_3_8B))]
    assert len(names) == 291
    assert names[0] == "model.embed_tokens.weight"
    assert names[1:10] == names[10:19]

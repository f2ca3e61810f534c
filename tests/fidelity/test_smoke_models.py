"""Small models of every architecture are built by the installed transformers, and train."""

from __future__ import annotations

import json
import os
import pickle

import pytest

pytest.importorskip("transformers")

import torch
import transformers
from installed import measured_with_the_newest
from transformers.integrations import HfDeepSpeedConfig, is_deepspeed_zero3_enabled

from ds_lint.smoke.rank.data import Tokens, batch
from ds_lint.smoke.rank.training_model import (
    CAUSAL,
    DEFAULT,
    IMAGE_TEXT,
    MASKED,
    SEQ2SEQ,
    Recipe,
    UnknownArchitecture,
    build,
    recipe,
    shapes,
)
from ds_lint.smoke.records.small_model import SWAPPED

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

MODELS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models")

# What the config.json of a well-known model says beside the defaults of its type.
WELL_KNOWN = {
    "llama": {
        "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072, "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009], "dtype": "bfloat16",
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
        },
    },
    "qwen2": {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "max_window_layers": 28, "sliding_window": 131072,
        "bos_token_id": 151643, "eos_token_id": 151643,
    },
    "gpt2": {"n_embd": 1600, "n_layer": 48, "n_head": 25, "n_positions": 1024, "bos_token_id": 50256},
    "falcon": {"hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True},
    "phi3": {
        "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "pad_token_id": 32000,
        "rope_parameters": {
            "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0] * 48, "long_factor": [1.0] * 48,
        },
    },
    "t5": {"decoder_start_token_id": 0, "num_decoder_layers": 24, "num_layers": 24},
    "bamba": {"attn_layer_indices": [9, 18, 27]},
    "deepseek_v2": {"num_experts_per_tok": 6, "n_group": 8, "topk_group": 3, "topk_method": "group_limited_greedy"},
    "qwen2_vl": {
        "text_config": {
            "vocab_size": 152064, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
            "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        },
    },
    "qwen3_vl": {"text_config": {"rope_scaling": {"rope_type": "default", "mrope_section": [24, 20, 20]}}},
    "lfm2_moe": {"num_hidden_layers": 6, "layer_types": ["conv", "conv", "full_attention"] * 2},
    "ministral": {"head_dim": 128},
    "nemotron": {"head_dim": 128, "num_key_value_heads": 8},
    "dots1": {"head_dim": 128, "n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6},
    "hunyuan_v1_dense": {"head_dim": 128},
}  # fmt: skip

TRAINED = (
    "llama", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen3_next", "mistral", "mixtral", "gemma", "gemma2",
    "gemma3_text", "gpt2", "gpt_neox", "gpt_oss", "phi", "phi3", "falcon", "bloom", "opt", "deepseek_v3",
    "stablelm", "starcoder2", "cohere", "olmo2", "glm4", "bamba", "mamba2", "t5", "bart", "pegasus", "mbart", "led",
    "switch_transformers", "bert", "roberta", "electra", "deberta-v2", "distilbert", "modernbert",
)  # fmt: skip
MORE = (
    "afmoe", "apertus", "arcee", "big_bird", "blenderbot", "camembert", "codegen", "cohere2", "convbert", "ctrl",
    "deberta", "deepseek_v2", "diffllama", "doge", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4", "falcon_h1",
    "falcon_mamba", "flex_olmo", "fsmt", "gemma3n_text", "gemma4_text", "glm", "glm4_moe", "gpt_bigcode", "gpt_neo",
    "gptj", "granite", "granitemoe", "helium", "hunyuan_v1_dense", "jamba", "jetmoe", "lfm2", "lfm2_moe",
    "llama4_text", "longt5", "m2m_100", "mamba", "marian", "minimax", "ministral", "mobilebert",
    "modernbert-decoder", "mpnet", "mpt", "mt5", "mvp", "nemotron", "nemotron_h", "olmo", "olmo3", "olmoe",
    "persimmon", "phimoe", "plbart", "prophetnet", "qwen3_5_text", "recurrent_gemma", "seed_oss", "smollm3",
    "t5gemma", "umt5", "xglm", "xlm-roberta", "xlnet",
)  # fmt: skip
# What has no part in a short text: poolers that only other heads use, attention from all tokens to a chosen one.
UNUSED = {"big_bird": ("pooler",), "led": ("_global",), "xlnet": ("mask_emb", "r_s_bias", "seg_embed")}
WITH_PICTURES = (
    "aria", "gemma3", "internvl", "llava", "llava_onevision", "mistral3", "paligemma", "qwen2_vl", "qwen3_vl",
    "smolvlm",
)  # fmt: skip


def given(model_type):
    """The config of a well-known model, else that of the defaults."""
    own = WELL_KNOWN.get(model_type, {})
    return transformers.CONFIG_MAPPING[model_type](**own).to_dict()


def trained(made):
    """A model that has made one step backward, and its loss."""
    model = build(made)
    loss = model(**batch(made, 2, step=0, rank=0)).loss
    loss.backward()
    return model, loss.item()


def without_gradient(model):
    return [name for name, parameter in model.named_parameters() if parameter.requires_grad and parameter.grad is None]


@pytest.mark.parametrize("model_type", [*TRAINED, *(pytest.param(name, marks=pytest.mark.long) for name in MORE)])
def test_a_small_model_of_the_architecture_trains_every_parameter(model_type):
    made = recipe(given(model_type))
    model, loss = trained(made)
    assert torch.isfinite(torch.tensor(loss))
    unused = UNUSED.get(model_type, ())
    assert [name for name in without_gradient(model) if not any(part in name for part in unused)] == []
    assert sum(parameter.numel() for parameter in model.parameters()) < 600_000
    assert all(parameter.dtype == torch.float32 and parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("model_type", WITH_PICTURES)
def test_a_model_that_also_sees_is_trained_on_text(model_type):
    model, loss = trained(recipe(given(model_type)))
    assert torch.isfinite(torch.tensor(loss))
    of_pictures = ("vision", "visual", "projector", "newline", "connector")
    assert all(any(part in name for part in of_pictures) for name in without_gradient(model))


@pytest.mark.parametrize("model_type", ["llama4", "qwen3_5"])
def test_of_some_models_with_pictures_only_the_text_part_is_trained(model_type):
    model, loss = trained(recipe(given(model_type)))
    assert torch.isfinite(torch.tensor(loss))
    assert without_gradient(model) == []


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "feed_forward_proj": "relu"},
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "feed_forward_proj": "gated-relu"},
        {"model_type": "opt", "architectures": ["OPTForCausalLM"], "activation_function": "relu"},
    ],
    ids=["T5", "gated T5", "OPT"],
)
def test_roundoff_turns_no_activation_on_or_off(config):
    made = build(recipe(config))
    assert not [one for one in made.modules() if isinstance(one, torch.nn.ReLU)]


@pytest.mark.parametrize("folder", ["gpt2", "llama", "mixtral", "olmoe", "phimoe", "qwen3_moe", "t5"])
def test_a_config_that_says_little_is_completed_by_transformers(folder):
    with open(os.path.join(MODELS, folder, "config.json"), encoding="utf-8") as file:
        _, loss = trained(recipe(json.load(file)))
    assert torch.isfinite(torch.tensor(loss))


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "gpt2"}, CAUSAL),
        ({"model_type": "t5"}, SEQ2SEQ),
        ({"model_type": "bert"}, MASKED),
        ({"model_type": "bert", "architectures": ["BertForSequenceClassification"]}, MASKED),
        ({"model_type": "bert", "architectures": ["BertLMHeadModel"]}, CAUSAL),
        ({"model_type": "llava"}, IMAGE_TEXT),
    ],
)
def test_the_architecture_says_what_a_model_learns(config, kind):
    assert recipe(config).kind == kind


def test_without_a_config_it_is_a_tiny_llama():
    made = recipe(None)
    assert made.words == "tiny Llama"
    assert sum(parameter.numel() for parameter in build(made).parameters()) == 24_736


def test_a_recipe_travels_as_json_and_as_a_pickle():
    for made in (recipe(None), recipe(given("bamba")), recipe(given("bert"))):
        assert Recipe(**json.loads(json.dumps(made._asdict()))) == made
        assert pickle.loads(pickle.dumps(made)) == made


def test_the_same_recipe_makes_the_same_model_and_the_same_losses():
    made = recipe(given("gpt2"))  # with dropout, as configs have it
    (one, first), (other, second) = trained(made), trained(made)
    assert first == second
    assert all(torch.equal(*pair) for pair in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.parametrize("model_type", ["gpt2", "bart", "deberta-v2", "switch_transformers", "phimoe"])
def test_a_loss_does_not_depend_on_chance(model_type):
    made = recipe(given(model_type))
    model, data = build(made), batch(made, 2, step=0, rank=0)
    torch.manual_seed(1)
    loss = model(**data).loss
    torch.manual_seed(2)
    assert torch.equal(model(**data).loss, loss)


@pytest.mark.parametrize("config", [None, WELL_KNOWN["llama"] | {"model_type": "llama"}])
def test_swapped_models_have_parameters_that_go_to_nvme(config):
    made = recipe(config, SWAPPED)
    assert made.words == "small Llama"
    largest = max(parameter.numel() for parameter in build(made).parameters())
    assert largest * 2 // 4 >= 2**20  # bytes in 16 bit of each of four ranks


# The numbers of parameters that the model cards say.
COUNTS = [
    (6_738_415_616, "llama", {"hidden_size": 4096, "intermediate_size": 11008, "vocab_size": 32000}),
    (8_030_261_248, "llama", WELL_KNOWN["llama"]),
    (7_615_616_512, "qwen2", WELL_KNOWN["qwen2"]),
    (7_241_732_096, "mistral", {"num_key_value_heads": 8, "vocab_size": 32000}),
    (46_702_792_704, "mixtral", {"num_key_value_heads": 8, "vocab_size": 32000}),
    (124_439_808, "gpt2", {}),  # the head is tied to the embedding
    (60_506_624, "t5", {"decoder_start_token_id": 0}),
    (109_514_298, "bert", {"architectures": ["BertForMaskedLM"]}),
    (109_483_778, "bert", {"architectures": ["BertForSequenceClassification"]}),
]


@pytest.mark.parametrize(("count", "model_type", "config"), COUNTS)
def test_full_size_shapes_have_as_many_parameters_as_the_model(count, model_type, config):
    found = shapes(config | {"model_type": model_type})
    assert sum(shape.numel for shape in found) == count
    assert len({shape.name for shape in found}) == len(found)


def test_shapes_are_those_of_the_model_that_is_built():
    made = recipe(given("qwen3_moe"))
    built = {name: tuple(parameter.shape) for name, parameter in build(made).named_parameters()}
    assert {shape.name: shape.dims for shape in shapes(made)} == built


@pytest.mark.parametrize("model_type", ["llama", "gemma3"])  # one that transformers makes of several
def test_shapes_are_whole_where_transformers_partitions_models(model_type):
    whole = shapes(recipe(given(model_type)))
    partitioning = HfDeepSpeedConfig({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}})
    assert shapes(recipe(given(model_type))) == whole
    assert is_deepspeed_zero3_enabled()
    del partitioning  # which ends it
    assert not is_deepspeed_zero3_enabled()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"model_type": "foo"},
            f"transformers {transformers.__version__} does not know model_type foo; without --model",
        ),
        ({}, "needs a model_type in config.json"),
        ({"model_type": "vit"}, "has no language model of model_type vit"),
        ({"model_type": "llama", "hidden_size": "wide"}, "does not accept the config.json of this llama"),
        ({"model_type": "blip"}, "on pixel_values, and the run has only text"),
    ],
)
def test_what_cannot_be_built_is_said_in_one_sentence(config, words):
    with pytest.raises(UnknownArchitecture, match="the run uses a tiny Llama") as refused:
        recipe(config)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_batch_is_the_same_for_the_same_step_and_rank_only():
    made = recipe(None)
    same = batch(made, 4, step=3, rank=1)["input_ids"]
    assert torch.equal(same, batch(made, 4, step=3, rank=1)["input_ids"])
    assert not torch.equal(same, batch(made, 4, step=3, rank=0)["input_ids"])
    assert not torch.equal(same, batch(made, 4, step=2, rank=1)["input_ids"])


def test_a_batch_has_ordinary_tokens():
    made = recipe(DEFAULT | {"pad_token_id": 5})
    tokens = set(batch(made, 100, step=0, rank=0)["input_ids"].flatten().tolist())
    assert tokens == set(range(64)) - {1, 2, 5}


def test_a_sequence_has_no_more_tokens_than_positions():
    made = recipe(DEFAULT | {"max_position_embeddings": 10})
    assert batch(made, 2, step=0, rank=0)["input_ids"].shape == (2, 8)


def test_a_masked_model_predicts_some_tokens_only():
    labels = batch(recipe({"model_type": "bert"}), 1, step=0, rank=0)["labels"][0]
    assert (labels != -100).sum() == 4
    assert len(labels) == 16


def test_a_dataset_has_single_sequences():
    tokens = Tokens(recipe(None), 5)
    assert len(tokens) == len(list(tokens)) == 5
    assert tokens[0]["input_ids"].shape == (16,)
    assert torch.equal(tokens[2]["input_ids"], tokens[2]["input_ids"])
    assert not torch.equal(tokens[2]["input_ids"], tokens[3]["input_ids"])

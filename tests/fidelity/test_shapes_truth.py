"""``schemas/shapes.json`` gives the parameters that the classes of transformers have, at sizes it was not made with."""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
from collections import Counter
from operator import attrgetter
from pathlib import Path

import pytest

pytest.importorskip("transformers")
import torch
import transformers
from installed import INSTALLED
from transformers import CONFIG_MAPPING

from ds_lint.facts.shapes import count, in_order, kinds
from ds_lint.knowledge import tables

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif(
        INSTALLED.transformers != tables.load("shapes")["transformers"],
        reason="the shapes are those of another release",
    ),
]

MODELS = tables.load("shapes")["models"]
FOLDERS = [
    path
    for path in sorted((Path(__file__).parents[1] / "models").glob("*/config.json"))
    if json.loads(path.read_text())["model_type"] in MODELS and path.parent.name != "tiny"  # which is refused
]
LAYERS = (
    "num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers", "depth"
)  # fmt: skip


NUMBERS = {"position_buckets": 64}  # which a config has only if it is given
# What must be said too, and goes with the rest.
GOING_WITH = {
    "llava": lambda config: {"vision_config": config["vision_config"] | {"num_attention_heads": 16}},
    "gpt_neo": lambda config: {"attention_types": [[["global"], config["num_layers"]]]},
}


def part_of(config: dict, path: str) -> dict:
    """What holds a key, which is dotted if it is one of a part."""
    part = path.rpartition(".")[0]
    return config.setdefault(part, {}) if part else config


def in_model(model_type: str, config: dict) -> list[tuple[str, tuple[int, ...]]]:
    """The parameters of the real model in its order, on the device that allocates nothing."""
    with torch.device("meta"):
        made = CONFIG_MAPPING[model_type].from_dict(copy.deepcopy(config))
        model = getattr(transformers, MODELS[model_type]["class"])(made)
    return [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]


def described(config: dict) -> list[tuple[str, tuple[int, ...]]]:
    """The same by the store."""
    return [(kind.name, kind.shape) for kind in in_order(kinds(config))]


def without_numbers(parameters: list[tuple[str, tuple[int, ...]]]) -> list[tuple[str, tuple[int, ...]]]:
    return [(re.sub(r"\.(\d+|#)(?=\.)", ".#", name), shape) for name, shape in parameters]


def built(model_type: str, config: dict) -> Counter:
    """How many parameters of each shape the real model has."""
    return Counter(shape for _, shape in in_model(model_type, config))


def with_other_sizes(model_type: str) -> dict:
    """A config with few layers, and other sizes than the class has."""
    dice = random.Random(model_type)
    keys = MODELS[model_type]["keys"]
    config: dict = {"model_type": model_type}
    for path in keys:
        key = path.rpartition(".")[2]
        given = part_of(config, path)
        if key in LAYERS:
            given[key] = dice.choice([5, 6, 7])
        elif "vocab_size" in key and "type" not in key:
            given[key] = dice.choice([1009 * 256, 1013 * 256])  # above every index of padding
        elif any(word in key for word in ("intermediate", "ffn", "inner", "d_ff")):
            given[key] = dice.choice([160, 352])
        elif key in ("tie_word_embeddings", "attention_bias", "mlp_bias"):
            given[key] = dice.random() < 0.5
        elif "missing" not in keys[path]:
            given[key] = NUMBERS[path] if path in NUMBERS else attrgetter(path)(CONFIG_MAPPING[model_type]())
    for path, value in MODELS[model_type].get("needs", {}).items():
        part_of(config, path)[path.rpartition(".")[2]] = value
    return config | GOING_WITH.get(model_type, lambda _: {})(config)


@pytest.mark.parametrize("model_type", sorted(MODELS))
def test_other_sizes(model_type):
    config = with_other_sizes(model_type)
    assert without_numbers(described(config)) == without_numbers(in_model(model_type, config))


@pytest.mark.long
@pytest.mark.parametrize("model_type", sorted(MODELS))
def test_the_order_with_every_condition_on_and_off(model_type):
    """ZeRO cuts shares through the parameters as they stand in the model."""
    for case in (MODELS[model_type], *MODELS[model_type].get("others", ())):
        switches = {switch for entry in case["parameters"] for switch in entry.get("if", ())}
        for switch, value in itertools.product(sorted(switches), (False, True)):
            config = with_other_sizes(model_type)
            for path, needed in case.get("needs", {}).items():
                part_of(config, path)[path.rpartition(".")[2]] = needed
            part_of(config, switch)[switch.rpartition(".")[2]] = value
            found = described(config)
            assert without_numbers(found) == without_numbers(in_model(model_type, config)), (switch, value)


@pytest.mark.parametrize(
    "config",
    [
        *({"model_type": "t5", "feed_forward_proj": word} for word in ("relu", "gated-gelu", "gated-silu")),
        {"model_type": "mt5"},
        {"model_type": "mt5", "feed_forward_proj": "gated-gelu", "is_gated_act": False},
        {"model_type": "bloom", "hidden_size": 64, "n_embed": 128, "n_layer": 2},
        {"model_type": "bart", "num_hidden_layers": 3, "encoder_layers": 2, "hidden_size": 512},
        {"model_type": "gpt_bigcode", "num_hidden_layers": 2, "max_position_embeddings": 64, "n_positions": 32},
        {"model_type": "qwen3_moe", "num_hidden_layers": 2, "num_experts": 8, "num_local_experts": 4},
        {"model_type": "deepseek_v3", "num_hidden_layers": 4, "first_k_dense_replace": 2, "q_lora_rank": None},
        {"model_type": "falcon", "hidden_size": 256, "n_embed": 128, "num_attention_heads": 4, "num_hidden_layers": 2},
    ],
    ids=lambda config: ",".join(f"{name}={value}" for name, value in config.items()),
)
def test_what_a_config_class_works_out_of_other_keys(config):
    found = in_model(config["model_type"], config)
    assert without_numbers(described(config)) == without_numbers(found)


@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.parent.name)
def test_configs_as_they_are_saved(path):
    config = json.loads(path.read_text())
    config.pop("quantization_config", None)
    trunk = config | {"architectures": None}
    assert count(trunk) == sum(shape_size * times for shape_size, times in sizes(config["model_type"], trunk))


def sizes(model_type: str, config: dict) -> list[tuple[int, int]]:
    return [(torch.Size(shape).numel(), times) for shape, times in built(model_type, config).items()]


@pytest.mark.parametrize(("layers", "groups", "inner"), [(40, 2, 13696), (28, 2, 13696), (3, 4, 416)])
def test_the_remote_code_of_chatglm_has_the_parameters_of_its_port(layers, groups, inner):
    """GLM-4 with ``modeling_chatglm.py`` was converted tensor by tensor into transformers' own class."""
    remote = {
        "model_type": "chatglm",
        "hidden_size": 4096,
        "num_layers": layers,
        "padded_vocab_size": 151552,
        "ffn_hidden_size": inner,
        "num_attention_heads": 32,
        "kv_channels": 128,
        "multi_query_attention": True,
        "multi_query_group_num": groups,
        "add_bias_linear": False,
        "add_qkv_bias": True,
    }
    port = {
        "hidden_size": 4096,
        "num_hidden_layers": layers,
        "vocab_size": 151552,
        "intermediate_size": inner,
        "num_attention_heads": 32,
        "head_dim": 128,
        "num_key_value_heads": groups,
        "attention_bias": True,
        "tie_word_embeddings": False,
    }
    assert count(remote) == sum(shape_size * times for shape_size, times in sizes("glm", port))


PUBLISHED = {  # the smallest of each model type
    config["model_type"]: (name, config)
    for name, config in sorted(
        tables.load("published_models")["models"].items(), key=lambda one: count(one[1]) or 0, reverse=True
    )
    if config["model_type"] in MODELS
}
QUICK = ("gpt2", "bert", "opt", "llama", "qwen3")


@pytest.mark.parametrize(
    "model_type", [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in sorted(PUBLISHED)]
)
def test_published_configs_make_models_of_these_shapes(model_type):
    _, config = PUBLISHED[model_type]
    found = Counter()
    for kind in kinds(config):
        found[kind.shape] += kind.times
    assert +found == built(model_type, config)

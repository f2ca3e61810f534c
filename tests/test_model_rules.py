"""What the rules about the model and the machine say where their pages have no example."""

from __future__ import annotations

import pytest
from linted import lint_dict, lint_with

from ds_lint.facts import Facts
from ds_lint.facts.gpu import named
from ds_lint.facts.model import Model
from ds_lint.facts.safetensors import Parameter
from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import Target
from ds_lint.linter.choice import choose
from ds_lint.source import documents

PHIMOE = {"model_type": "phimoe", "num_local_experts": 16}
OMNI = {"model_type": "qwen3_omni_moe_text", "num_experts": 128}
SEVEN_BILLION = 7_000_000_000


def known(config=None, *, gpu=None, host_memory=None, world_size=None, nodes=None, **model):
    facts = Facts(world_size=world_size, nodes=nodes)
    facts.model = Model("", config or {"model_type": "llama"}, **model) if config or model else None
    facts.gpu = named(gpu) if gpu else None
    facts.host_memory = host_memory
    return facts


def codes(config, facts, stack="deepspeed", **versions):
    config = {"train_micro_batch_size_per_gpu": 1, **config}
    report = lint_dict(config, target=Target(**versions), stack=stack, facts=facts)
    return [finding.code for finding in report.findings if int(finding.code[2:]) % 100 >= 50]


def zero(stage=3, **settings):
    return {"zero_optimization": {"stage": stage, **settings}}


def test_models_are_known_of_the_releases_that_the_trainer_is_known_of():
    assert tables.load("models")["releases"] == tables.load("transformers")["releases"]


# Leaf modules


@pytest.mark.parametrize(
    ("leaf_module", "expected"),
    [
        ({}, ["DS350"]),
        ({"classes": []}, ["DS350"]),
        ({"classes": ["PhimoeSparseMoeBlock"]}, []),
        ({"classes": ["PhimoeDecoderLayer"]}, []),
        ({"names": ["model.layers.0"]}, []),
        ({"name_suffixes": ["block_sparse_moe"]}, []),
    ],
)
def test_whatever_leaf_module_names_may_be_around_the_experts(leaf_module, expected):
    assert codes(zero(leaf_module=leaf_module), known(PHIMOE), transformers="4.57.6") == expected


@pytest.mark.parametrize(
    ("facts", "stage", "expected"),
    [
        (known(PHIMOE), 3, ["DS350"]),
        (known(PHIMOE, world_size=1), 3, []),
        (known(PHIMOE), 2, []),
        (known({**PHIMOE, "num_local_experts": 1}), 3, []),
        (known({"model_type": "granitemoe", "num_local_experts": 8}), 3, []),
        (known({"model_type": "llava", "text_config": PHIMOE}), 3, ["DS350"]),
        (known({"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": OMNI}}), 3, ["DS350"]),
    ],
    ids=["moe", "one rank", "stage 2", "one expert", "joined experts", "text part", "thinker of an Omni model"],
)
def test_only_ranks_that_run_different_modules_part_ways(facts, stage, expected):
    assert codes(zero(stage), facts, transformers="4.57.6") == expected


def test_a_range_of_transformers_is_linted_release_by_release():
    choice = choose("", {"deepspeed": "0.17.6", "transformers": ">=4.39,<5.1", "accelerate": "1.2.1"})
    facts = known({"model_type": "mixtral", "num_local_experts": 8})
    report = lint_with(
        choice, documents.from_dict({"train_micro_batch_size_per_gpu": 1, **zero()}), stack="trainer", facts=facts
    )
    (finding,) = (finding for finding in report.findings if finding.code == "DS350")
    assert finding.releases == {"transformers": [("4.39.0", "4.39.3"), ("4.52.1", "4.57.6")]}


# Persistence


def llama(*counts):
    parameters = [Parameter(str(place), (count,), "BF16") for place, count in enumerate(counts)]
    return known(parameters=parameters, parameter_count=sum(counts))


@pytest.mark.parametrize(
    ("counts", "settings", "expected"),
    [
        ((10, 10), {}, ["DS351"]),
        ((10, 200_000), {}, []),
        ((10, 200_000), {"param_persistence_threshold": 200_000}, ["DS351"]),
        ((10, 200_000), {"stage3_param_persistence_threshold": "2e5"}, ["DS351"]),
        ((10, 200_000), {"stage3_param_persistence_threshold": 0}, []),
        ((60, 60), {"stage3_model_persistence_threshold": 50}, []),
        ((60, 60), {"model_persistence_threshold": 60}, ["DS351"]),
        ((60, 60), {"stage3_param_persistence_threshold": "auto"}, []),
    ],
)
def test_what_stays_whole_is_counted(counts, settings, expected):
    assert codes(zero(**settings), llama(*counts), stack="trainer") == expected


def test_auto_is_ten_times_the_width():
    facts = known({"hidden_size": 8}, parameters=[Parameter("a", (80,), "BF16")], parameter_count=80)
    assert codes(zero(stage3_param_persistence_threshold="auto"), facts, stack="trainer") == ["DS351"]


# Quantisation and activation checkpointing


@pytest.mark.parametrize(
    ("quantization", "expected"),
    [
        ({"quant_method": "gptq"}, ["DS352"]),
        ({"load_in_4bit": True}, ["DS352"]),
        ({"quant_method": "bitsandbytes", "bnb_4bit_quant_storage": "uint8"}, ["DS352"]),
        ({"quant_method": "bitsandbytes", "bnb_4bit_quant_storage": "bfloat16"}, ["DS352"]),
    ],
)
@pytest.mark.parametrize("release", ["4.38.2", "4.41.1", "5.0.0"])
def test_however_weights_are_stored_transformers_does_not_partition_them(quantization, expected, release):
    facts = known({"quantization_config": quantization})
    assert codes(zero(), facts, stack="trainer", transformers=release) == expected


def test_before_4_39_a_quantized_model_is_not_loaded_at_all():
    facts = known({"quantization_config": {"load_in_4bit": True}})
    config = {"train_micro_batch_size_per_gpu": 1, **zero()}
    for release, what in (("4.38.2", "4.38.2 raises at stage 3"), ("4.39.0", "every rank loads the whole model")):
        report = lint_dict(config, target=Target(transformers=release), stack="trainer", facts=facts)
        (message,) = [finding.message for finding in report.findings if finding.code == "DS352"]
        assert message.endswith(what)


def test_deepspeed_alone_does_not_load_the_model():
    facts = known({"quantization_config": {"quant_method": "gptq"}})
    assert codes(zero(), facts, stack="deepspeed") == []


@pytest.mark.parametrize(
    ("section", "model", "stack", "expected"),
    [
        ({"cpu_checkpointing": True}, {"model_type": "llama"}, "trainer", ["DS353"]),
        ({"cpu_checkpointing": False}, {"model_type": "llama"}, "trainer", []),
        ({"cpu_checkpointing": True}, {"auto_map": {"AutoModel": "modeling.Own"}}, "trainer", []),
        ({"cpu_checkpointing": True}, {"model_type": "llama"}, "deepspeed", []),
    ],
)
def test_activation_checkpointing_is_for_models_that_call_it(section, model, stack, expected):
    assert codes({"activation_checkpointing": section}, known(model), stack=stack) == expected


# Precision


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"model_type": "llama", "dtype": "bfloat16"}, ["DS450"]),
        ({"model_type": "llama", "torch_dtype": "torch.bfloat16"}, ["DS450"]),
        ({"model_type": "llama", "dtype": "float16"}, []),
        ({"model_type": "t5", "dtype": "float32"}, ["DS450"]),
        ({"model_type": "own", "text_config": {"model_type": "gemma3_text"}}, ["DS450"]),
    ],
)
def test_fp16_is_too_small_for_what_was_trained_in_bf16(model, expected):
    assert codes({"fp16": {"enabled": True}}, known(model)) == expected
    assert codes({"fp16": {"enabled": False}}, known(model)) == []


def test_who_trains_in_fp32_is_known_of_deepspeed_alone():
    facts = known(parameter_count=SEVEN_BILLION)
    assert codes({}, facts) == ["DS451"]
    assert codes({"bf16": {"enabled": True}}, facts) == []
    assert codes({"torch_autocast": {"enabled": True}}, facts) == []
    assert codes({}, facts, stack="trainer") == []
    assert codes({}, known(parameter_count=500_000_000)) == []


# Nothing known


@pytest.mark.parametrize("stack", ["deepspeed", "trainer", "accelerate"])
def test_without_facts_there_is_nothing_to_say(stack):
    config = {
        "bf16": {"enabled": True},
        **zero(3, offload_optimizer={"device": "cpu"}),
        "activation_checkpointing": {"profile": True},
    }
    assert codes(config, Facts(), stack=stack) == []

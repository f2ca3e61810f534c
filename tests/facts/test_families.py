"""Families that overflow in fp16: each is one of transformers, with a report of it."""

from __future__ import annotations

import pytest

from ds_lint.facts.families import family_of_name
from ds_lint.knowledge import tables

FAMILIES = tables.load("families")["overflow_in_fp16"]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_has_a_source(family):
    assert FAMILIES[family]["trained_in"] == "bfloat16"
    assert FAMILIES[family]["sources"]
    assert all(source.startswith("https://") for source in FAMILIES[family]["sources"])


@pytest.mark.fidelity
def test_every_family_is_one_of_transformers():
    names = pytest.importorskip("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    assert set(FAMILIES) <= set(names)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("bigscience/T0pp", "t5"),
        ("bigscience/T0_3B", "t5"),
        ("google/ul2", "t5"),
        ("google/byt5-small", "t5"),
        ("allenai/tk-instruct-3b-def-pos", "t5"),
        ("bigscience/t0pp", "t5"),
        ("models/T0pp", "t5"),
        ("models/T0", "t5"),
        ("/data/T0_3B/checkpoint-500", "t5"),
        ("/data/byt5-base-finetuned", "t5"),
        ("someone/flan-t5-xl-samsum", "t5"),
        ("t5-v1_1-base", "t5"),
        ("models--google--mt5-base/snapshots/0123456789abcdef0123456789abcdef01234567", "mt5"),
        ("/models/Mixtral-8x7B-Instruct-v0.1", "mixtral"),
        ("qwen1.5-moe-a2.7b-chat", "qwen2_moe"),
        ("pegasus-large-cnn", "pegasus"),
        ("gpt-neo-2.7B", "gpt_neo"),
    ],
)
def test_a_name_tells_the_family(name, family):
    found = family_of_name(name)
    assert found is not None
    assert found.model_type == family


@pytest.mark.parametrize(
    "name",
    [
        "t0-train", "out/t0", "T5Tokenizer", "byte5", "byt5", "ul2-run", "t5-training", "not-t5-base", "my-t5-small",
        "t5-small-tokenizer", "t5-base-encoder", "flan-t5-xl-lora", "TheBloke/Mixtral-8x7B-v0.1-GGUF", "mixtral-8xtest",
        "EleutherAI/gpt-neox-20b", "switchboard", "google/t5", "byt5-base-vs-llama/llama-7b", ".", "models/", "",
    ],
)  # fmt: skip
def test_a_name_that_only_looks_like_one_tells_nothing(name):
    assert family_of_name(name) is None

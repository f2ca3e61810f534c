"""What is known of model types is what the installed transformers makes of them."""

from __future__ import annotations

import importlib

import pytest

from ds_lint.knowledge import keys

pytest.importorskip("transformers")

from installed import INSTALLED
from torch import nn
from transformers import CONFIG_MAPPING

from ds_lint.knowledge import tables

pytestmark = pytest.mark.fidelity

MODELS = tables.load("models")


def known(table: str, name: str):
    return keys.knowledge(INSTALLED).of_model(table, name)


def made(cls):
    """A config with its defaults; None where a type wants arguments or a download."""
    try:
        return cls()
    except Exception:
        return None


def test_the_hidden_size_stands_where_it_is_said_to():
    wrong, linted = [], 0
    for name, config in ((name, made(cls)) for name, cls in CONFIG_MAPPING.items()):
        if config is None:
            continue
        facts = known("hidden_sizes", name) or {"key": "hidden_size"}
        size = getattr(config, "hidden_size", None)
        key = facts.get("key")
        linted += 1
        if "calculated" in facts:
            continue
        if hasattr(config, "hidden_size") != (key is not None) or (key and getattr(config, key, None) != size):
            wrong.append((name, facts, size))
    assert linted > 300
    assert wrong == []


@pytest.mark.parametrize("name", MODELS["chosen_experts"])
def test_a_block_that_chooses_experts_is_a_module(name):
    for block in (known("chosen_experts", name) or {"blocks": []})["blocks"]:
        module, _, cls = block.rpartition(".")
        assert issubclass(getattr(importlib.import_module(module), cls), nn.Module)

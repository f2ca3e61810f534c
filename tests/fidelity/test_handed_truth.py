"""What ds-lint takes of a script's own optimizer, loader of data and model is what the libraries make of them."""

from __future__ import annotations

import importlib

import pytest
from installed import measured_with_the_newest

pytest.importorskip("accelerate")

import torch
import transformers
from accelerate.data_loader import prepare_data_loader
from torch.utils.data import DataLoader
from transformers import AutoConfig

from ds_lint.footprint.handed import NAMES
from ds_lint.knowledge import tables

pytestmark = pytest.mark.fidelity
MODULES = {
    "torch": ["torch.optim"],
    "deepspeed": ["deepspeed.ops.adam", "deepspeed.ops.lamb", "deepspeed.ops.lion"],
}


@pytest.mark.parametrize(("splits", "size"), [(False, 4), (True, 2)])
@pytest.mark.parametrize("rank", [0, 1])
def test_accelerate_gives_each_rank_batches_of_the_size_of_the_loader(rank, splits, size):
    loader = DataLoader(range(32), batch_size=4)
    own = prepare_data_loader(
        loader, num_processes=2, process_index=rank, split_batches=splits, put_on_device=False, dispatch_batches=False
    )
    assert len(next(iter(own))) == size


@pytest.mark.parametrize(("package", "name"), [one for one in NAMES if one[0] in MODULES])
def test_a_class_is_where_a_script_imports_it_from(package, name):
    assert any(hasattr(importlib.import_module(module), name) for module in MODULES[package])


@measured_with_the_newest
@pytest.mark.parametrize("model_type", ["bloom", "gemma2", "gpt2", "gpt_oss", "llama", "mt5", "qwen2", "qwen3_moe"])
def test_a_class_takes_the_attention_of_its_measurement_unasked(model_type):
    measured = tables.load("activations")["models"][model_type]
    config = AutoConfig.for_model(model_type, num_hidden_layers=1, n_layer=1, num_layers=1)
    with torch.device("meta"):
        model = getattr(transformers, measured["class"])._from_config(config)
    assert model.config._attn_implementation == measured["attention"]

"""``schemas/layer_classes.json`` names every layer that models of the installed transformers have."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("transformers")
pytest.importorskip("accelerate")

from installed import measured_with_the_newest

from ds_lint.knowledge import tables

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

QUICK = ("llama", "qwen2", "mixtral", "gpt2", "t5", "bert", "opt")


def missing(model_type: str) -> set[str]:
    """The layers of a model that the store does not have among those of its type; nothing has weights."""
    import torch
    from transformers import CONFIG_MAPPING, AutoModel

    with torch.device("meta"):
        model = AutoModel.from_config(CONFIG_MAPPING[model_type]())
    layers = tables.load("layer_classes")["layers"]
    every = {name for names in layers.values() for name in names}
    named = {type(module).__name__ for module in model.modules()} | {*(model._no_split_modules or ())}
    return (named & every) - {*layers[model_type]}


@pytest.mark.parametrize("model_type", QUICK)
def test_the_layers_of_a_model(model_type: str) -> None:
    assert missing(model_type) == set()


@pytest.mark.long
def test_the_layers_of_every_model() -> None:
    found, wrong, failed = 0, {}, []
    for model_type in tables.load("layer_classes")["layers"]:
        try:
            names = missing(model_type)
        except Exception as error:  # a config without sizes, a model of another kind
            failed.append(f"{model_type}: {type(error).__name__}")
            continue
        found += 1
        if names:
            wrong[model_type] = sorted(names)
    assert not wrong, json.dumps(wrong)
    assert found > 200, failed


def test_a_layer_of_another_model_is_not_found() -> None:
    """DS668: the plugin raises over the class that the model does not have."""
    import os

    from accelerate.utils import FullyShardedDataParallelPlugin
    from transformers import Qwen2Config, Qwen2Model

    model = Qwen2Model(Qwen2Config(vocab_size=8, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                                   num_attention_heads=1, num_key_value_heads=1))  # fmt: skip
    for name, is_there in (("Qwen2DecoderLayer", True), ("LlamaDecoderLayer", False), ("Qwen2DecoderLayr", False)):
        before = dict(os.environ)
        try:
            plugin = FullyShardedDataParallelPlugin(
                auto_wrap_policy="TRANSFORMER_BASED_WRAP", transformer_cls_names_to_wrap=[name],
                cpu_ram_efficient_loading=False, sync_module_states=False,
            )  # fmt: skip
            if is_there:
                plugin.set_auto_wrap_policy(model)
            else:
                with pytest.raises(ValueError, match="Could not find the transformer layer class"):
                    plugin.set_auto_wrap_policy(model)
        finally:
            os.environ.clear()
            os.environ.update(before)

"""The parameters of a model with adapters are those that the real peft makes, each by name, size and training."""

from __future__ import annotations

import re
from collections import Counter

import pytest

pytest.importorskip("transformers")
pytest.importorskip("peft")
import peft
import torch
import transformers
from installed import INSTALLED
from transformers import CONFIG_MAPPING

from ds_lint.facts.lora import ALL_LINEAR, Adapters, NoAdapters, tensors_with
from ds_lint.facts.model import Model
from ds_lint.knowledge import tables

pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif(
        INSTALLED.transformers != tables.load("shapes")["transformers"]
        or peft.__version__ != tables.load("peft")["release"],
        reason="the shapes are those of another release",
    ),
]

DECODER = {
    "vocab_size": 96, "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 48}
MODELS = {
    "llama": DECODER,
    "qwen2": DECODER | {"tie_word_embeddings": True},
    "qwen3": DECODER | {"head_dim": 32},
    "mistral": DECODER,
    "gemma2": DECODER | {"head_dim": 32},
    "phi": DECODER,
    "phi3": DECODER | {"pad_token_id": 0},
    "gpt2": {"vocab_size": 96, "n_positions": 32, "n_embd": 64, "n_layer": 2, "n_head": 4},
    "gpt_neox": {name: value for name, value in DECODER.items() if name != "num_key_value_heads"},
    "bloom": {"vocab_size": 96, "hidden_size": 64, "n_layer": 2, "n_head": 4},
    "opt": {
        "vocab_size": 96, "hidden_size": 64, "ffn_dim": 160, "num_hidden_layers": 2, "num_attention_heads": 4,
        "word_embed_proj_dim": 64, "max_position_embeddings": 32,
    },
    "t5": {"vocab_size": 96, "d_model": 64, "d_kv": 16, "d_ff": 160, "num_layers": 2, "num_heads": 4},
    "bert": {name: value for name, value in DECODER.items() if name != "num_key_value_heads"},
    "mixtral": DECODER | {"num_local_experts": 4},
    "qwen3_moe": DECODER | EXPERTS | {"num_experts": 4, "head_dim": 32},
    "qwen2_moe": DECODER | EXPERTS | {"num_experts": 4, "shared_expert_intermediate_size": 48},
    "deepseek_v3": DECODER | EXPERTS | {
        "num_key_value_heads": 4, "n_routed_experts": 8, "n_shared_experts": 1, "kv_lora_rank": 16, "q_lora_rank": 24,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, "first_k_dense_replace": 1, "n_group": 2,
        "topk_group": 1, "attention_bias": False,
    },
}  # fmt: skip
OF_DECODERS = ("llama", "qwen2", "qwen3", "mistral", "gemma2")
PEFT = tables.load("peft")
ALL_NAMES = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
CASES = [
    *((name, Adapters(8, ALL_LINEAR)) for name in MODELS),
    *((name, Adapters(3)) for name in MODELS if name in PEFT["targets"] and name not in PEFT["experts_like"]),
    *((name, Adapters(16, ALL_NAMES)) for name in (*OF_DECODERS, "qwen3_moe", "qwen2_moe", "deepseek_v3")),
    ("llama", Adapters(4, ("q_proj",), ("embed_tokens", "lm_head"))),
    ("qwen2", Adapters(4, ("q_proj",), ("embed_tokens",))),
    ("llama", Adapters(4, ("embed_tokens", "lm_head", "self_attn.v_proj"))),
    ("llama", Adapters(4, r".*\.layers\.\d+\.mlp\.(up|down)_proj")),
    ("gpt2", Adapters(4, ("c_proj", "wte"))),
    ("qwen2", Adapters(4, ("q_proj",), ("lm_head",))),
    ("qwen2", Adapters(4, ("q_proj", "lm_head"))),
    ("mixtral", Adapters(4, ("w1", "w2", "w3", "q_proj"))),
]


def held(model_type: str, adapters: Adapters) -> Counter:
    """What the real peft makes, by name without indices, size and whether it is trained."""
    with torch.device("meta"):
        model = getattr(transformers, tables.load("shapes")["models"][model_type]["class"])(
            CONFIG_MAPPING[model_type](**MODELS[model_type])
        )
        targets = list(adapters.targets) if isinstance(adapters.targets, tuple) else adapters.targets
        saved = list(adapters.modules_to_save) or None
        config = peft.LoraConfig(r=adapters.rank, target_modules=targets, modules_to_save=saved)
        made = peft.get_peft_model(model, config)
    return Counter(
        (plain(name.removeprefix("base_model.model.")), parameter.numel(), parameter.requires_grad)
        for name, parameter in made.named_parameters()
    )


def plain(name: str) -> str:
    """A name as both have it: peft wraps the module that holds a parameter, and the wrapper once more."""
    name = re.sub(r"\.(base_layer|original_module)(?=\.)", "", name)
    name = re.sub(r"\.(gate_up_proj|down_proj|weight)\.lora_", ".lora_", name)
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "#", name)


def expected(model_type: str, adapters: Adapters) -> Counter:
    model = Model("", {"model_type": model_type, **MODELS[model_type]})
    return Counter((plain(one.name), one.size, one.is_trained) for one in tensors_with(model, adapters))


def is_long(case) -> bool:
    return case not in CASES[::6]


@pytest.mark.parametrize(
    ("model_type", "adapters"),
    [pytest.param(*case, marks=[pytest.mark.long] if is_long(case) else []) for case in CASES],
    ids=[f"{name}-{one.rank}-{one.targets}"[:60] for name, one in CASES],
)
def test_the_parameters_are_those_of_peft(model_type, adapters):
    assert expected(model_type, adapters) == held(model_type, adapters)


def test_what_peft_refuses_is_refused():
    for model_type, targets in (("deepseek_v3", ("gate_proj",)), ("deepseek_v3", None), ("mixtral", None)):
        adapters = Adapters(4, targets)
        with pytest.raises(ValueError, match=r"gate_proj|target_modules"):
            held(model_type, adapters)
        with pytest.raises(NoAdapters):
            expected(model_type, adapters)

"""What a pass without autograd holds, and what ``generate`` and its cache do, against the real classes of transformers.

Storages are counted as they come and go, over a whole call: the passes of ``schemas/forward_activations.json`` were
measured one by one, and at other sizes.
"""

from __future__ import annotations

import weakref

import pytest

pytest.importorskip("transformers")
import torch
import transformers
from installed import INSTALLED
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ds_lint.footprint import forward, inference
from ds_lint.footprint.forward import ForwardPass
from ds_lint.footprint.setup import TrainingSetup
from ds_lint.footprint.untrained import Untrained
from ds_lint.knowledge import tables
from tools.activations.forward import describe

STORE = tables.load("forward_activations")
pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.long,
    pytest.mark.skipif(INSTALLED.transformers != STORE["transformers"], reason="the passes are of another release"),
]
SIZES = {
    "vocab_size": 2000, "hidden_size": 128, "intermediate_size": 320, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 32,
}  # fmt: skip
MODELS = {
    "llama": SIZES,
    "gemma2": SIZES | {"sliding_window": 16},
    "mistral": SIZES | {"sliding_window": 16},
    "gpt2": {"vocab_size": 2000, "n_embd": 128, "n_layer": 4, "n_head": 8},
    "deepseek_v2": {name: size for name, size in SIZES.items() if name not in ("head_dim", "num_key_value_heads")}
    | {
        "num_key_value_heads": 8, "kv_lora_rank": 64, "q_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
        "v_head_dim": 32, "head_dim": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 64,
        "first_k_dense_replace": 0, "n_shared_experts": 1,
    },
}  # fmt: skip


def built(model_type):
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(model_type, **MODELS[model_type], bos_token_id=0, eos_token_id=0)
    return transformers.AutoModelForCausalLM.from_config(config).to(torch.bfloat16).eval()


class Held(TorchDispatchMode):
    """Counts the bytes of storages that are made, until they are gone."""

    def __init__(self, known):
        super().__init__()
        self.seen = {one.untyped_storage()._cdata for one in known}
        self.now = self.most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for one in tree_leaves(result):
            storage = one.untyped_storage() if isinstance(one, torch.Tensor) else None
            if storage is not None and storage._cdata not in self.seen:
                self.seen.add(storage._cdata)
                self.now += storage.nbytes()
                weakref.finalize(storage, self.give_back, storage._cdata, storage.nbytes())
        self.most = max(self.most, self.now)
        return result

    def give_back(self, key, size):
        self.seen.discard(key)
        self.now -= size


def peak(model, inputs, run):
    """The most bytes beside the parameters and the inputs."""
    with torch.no_grad(), Held([*model.parameters(), *model.buffers(), *inputs]) as held:
        run()
    return held.most


@pytest.mark.parametrize("model_type", MODELS)
def test_an_evaluation_holds_what_is_estimated(model_type):
    model = built(model_type)
    model.config.use_cache = False
    ids = torch.randint(1, 2000, (2, 48))
    held = peak(model, [ids], lambda: model(input_ids=ids, labels=ids))
    band = forward.activations({"model_type": model_type, **MODELS[model_type]}, ForwardPass("evaluation", 2, 48))
    print(model_type, held, band)
    assert band.least <= held <= band.most
    assert band.likely == pytest.approx(held, rel=0.06)


@pytest.mark.parametrize(("model_type", "prompt", "new"), [
    ("llama", 64, 3), ("llama", 8, 40), ("gemma2", 64, 3), ("mistral", 64, 3), ("mistral", 8, 40), ("gpt2", 64, 3),
    ("deepseek_v2", 48, 3),
])  # fmt: skip
def test_generation_holds_what_is_estimated(model_type, prompt, new):
    """A layer with a window keeps the whole prompt until the next token, and the tokens of the window later."""
    model = built(model_type)
    ids = torch.randint(1, 2000, (2, prompt))
    mask = torch.ones_like(ids)
    held = peak(
        model,
        [ids, mask],
        lambda: model.generate(ids, attention_mask=mask, max_new_tokens=new, min_new_tokens=new, do_sample=False),
    )
    setup = TrainingSetup(
        tensors=(), ranks=1, nodes=1, stage=3, architecture={"model_type": model_type, **MODELS[model_type]},
        is_length_known=True,
    )  # fmt: skip
    found = inference.computed(setup, Untrained("generation", 2, prompt, new))
    least, likely, most = (sum(pair) for pair in zip(found.activations, found.cache, strict=True))
    print(model_type, prompt, new, held, least, likely, most)
    assert least <= held <= most
    assert likely == pytest.approx(held, rel=0.12)


@pytest.mark.parametrize("model_type", MODELS)
def test_a_cache_has_the_bytes_that_are_estimated(model_type):
    model = built(model_type)
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(torch.randint(1, 2000, (2, 40)), cache=cache, use_cache=True)
        model(torch.randint(1, 2000, (2, 1)), cache=cache, use_cache=True)
    tensors = [one for layer in cache.layers for one in (layer.keys, layer.values)]
    held = sum(one.untyped_storage().nbytes() for one in tensors)
    band = forward.cache({"model_type": model_type, **MODELS[model_type]}, 2, 41, "bf16")
    assert band.is_exact
    assert band.likely == held


@pytest.mark.parametrize("model_type", ["gemma2", "opt"])
def test_a_description_of_today_is_that_of_the_store(model_type):
    torch.manual_seed(0)
    assert describe(model_type) == STORE["models"][model_type]

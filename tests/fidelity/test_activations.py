"""What a training step holds beside the model states, against the real classes of transformers.

Measured with two programs of torch, which have nothing to do with the one that wrote ``schemas/activations.json``:
``MemTracker`` counts what is live at the peak, and hooks on saved tensors what autograd keeps of each layer. On fake
tensors models have their real sizes.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

pytest.importorskip("transformers")
import torch
import transformers
from installed import INSTALLED
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker

from ds_lint.footprint.activations import AdaptedLayers, Pass, activations
from ds_lint.footprint.quantities import KEYS, quantities, sizes
from ds_lint.knowledge import tables

STORE = tables.load("activations")
MEASURED = STORE["models"]
pytestmark = [
    pytest.mark.fidelity,
    pytest.mark.skipif(
        INSTALLED.transformers != STORE["transformers"], reason="the activations are those of another release"
    ),
]

LLAMA_8B = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "tie_word_embeddings": False,
}
QWEN_05B = {
    "model_type": "qwen2",
    "vocab_size": 151936,
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "tie_word_embeddings": True,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024}
MISTRAL_7B = LLAMA_8B | {"model_type": "mistral", "vocab_size": 32000}
T5_LARGE = {
    "model_type": "t5",
    "vocab_size": 32128,
    "d_model": 1024,
    "d_ff": 4096,
    "d_kv": 64,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "num_heads": 16,
    "decoder_start_token_id": 0,
}
BERT = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
GEMMA2_9B = {
    "model_type": "gemma2",
    "vocab_size": 256000,
    "hidden_size": 3584,
    "intermediate_size": 14336,
    "num_hidden_layers": 42,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 256,
}
PUBLISHED = [LLAMA_8B, QWEN_05B, GPT2, MISTRAL_7B, T5_LARGE, BERT, GEMMA2_9B]
BATCHES = [(1, 2048), (4, 512)]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One thread of torch, which is faster with small tensors, most of all on a busy machine."""
    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(usual)


@pytest.fixture(autouse=True)
def no_hooks_on_gradients(monkeypatch) -> None:
    """The tracker hooks every parameter, of which a frozen one has no gradient; all are dropped here as they come."""
    usual = MemTracker._track_module_params_and_buffers
    monkeypatch.setattr(
        MemTracker,
        "_track_module_params_and_buffers",
        lambda self, module, install_grad_hooks=True: usual(self, module, install_grad_hooks=False),
    )


@contextmanager
def fused_dropout() -> Iterator[None]:
    """Dropout that keeps a mask of one byte, as on a GPU."""
    usual = torch.nn.functional.dropout
    torch.nn.functional.dropout = lambda x, p=0.5, training=True, inplace=False: (
        torch.native_dropout(x, p, training)[0] if training and p else x
    )
    try:
        yield
    finally:
        torch.nn.functional.dropout = usual


def built(config: dict, computed: Pass, *, targets: Any = None) -> torch.nn.Module:
    """The model in training; attention without dropout, for which a fused kernel keeps nothing."""
    made = transformers.AutoConfig.for_model(**config)
    for key in ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"):
        if hasattr(made, key):
            setattr(made, key, 0.0)
    made.use_cache = False
    made._attn_implementation = computed.attention
    torch.set_default_dtype(torch.float32 if computed.dtype == "fp32" else torch.bfloat16)
    try:
        model = getattr(transformers, MEASURED[config["model_type"]]["class"])(made)
    finally:
        torch.set_default_dtype(torch.float32)
    if computed.adapters is not None:
        import peft

        model.enable_input_require_grads()
        lora = peft.LoraConfig(r=computed.adapters.rank, target_modules=targets)
        model = peft.get_peft_model(model, lora, autocast_adapter_dtype=False)  # the engine casts them
        model.to(torch.bfloat16)
    if computed.is_checkpointed:
        model.gradient_checkpointing_enable()
    return model.train()


def batch(config: dict, computed: Pass, *, is_padded: bool) -> dict[str, torch.Tensor]:
    ids = torch.randint(2, config["vocab_size"], (computed.micro_batch, computed.sequence_length))
    inputs = {"input_ids": ids, "labels": ids.clone()}
    if is_padded:
        inputs["attention_mask"] = torch.ones_like(ids)
        inputs["attention_mask"][0, -1:] = 0
    return inputs


def peak(config: dict, computed: Pass, *, targets: Any = None, is_padded: bool = False, is_fake: bool) -> range:
    """The bytes at the peak beside the parameters; between these, since a gradient may have been among them.

    If the embedding is the head too, these are two gradients.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) if is_fake else nullcontext(), fused_dropout():
        model = built(config, computed, targets=targets)
        inputs = batch(config, computed, is_padded=is_padded)
        tracker = MemTracker()
        tracker.track_external(model, *inputs.values())
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        hooks = [one.register_post_accumulate_grad_hook(lambda it: setattr(it, "grad", None)) for one in trained]
        before = sum(tracker.get_tracker_snapshot("current")[torch.device("cpu")].values()) // 2  # with their total
        with tracker:
            model(**inputs).loss.backward()
        found = sum(tracker.get_tracker_snapshot("peak")[torch.device("cpu")].values()) // 2 - before
        for hook in hooks:
            hook.remove()
        largest = max(parameter.nbytes for parameter in trained) * (2 if model.config.tie_word_embeddings else 1)
    return range(found - largest, found + 1)


def saved(config: dict, computed: Pass) -> int:
    """The bytes that autograd keeps of a step, each storage once and no parameter."""
    model = built(config, computed)
    kept: dict[int, int] = {}
    known = {one.untyped_storage().data_ptr() for one in model.parameters()}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with fused_dropout(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = model(**batch(config, computed, is_padded=False)).loss
    del loss
    return sum(kept.values())


def small(model_type: str, layers: int, dice: random.Random) -> dict:
    """A config with sizes of which the store has never seen one together."""
    usual = transformers.AutoConfig.for_model(model_type).to_dict()
    groups, heads, head_dim = dice.choice([2, 5]), 2, dice.choice([16, 24])
    has_own_head_dim = any(key in usual for key in KEYS["head_dim"])
    wanted = {
        "hidden": groups * heads * (dice.choice([16, 40]) if has_own_head_dim else head_dim),
        "intermediate": 8 * dice.randrange(30, 60),
        "heads": groups * heads,
        "key_value_heads": heads,
        "head_dim": head_dim,
        "layers": layers,
        "decoder_layers": layers,
        "vocabulary": dice.randrange(400, 900),
        "experts": 7,
        "chosen": 3,
        "expert_intermediate": 72,
        "shared_intermediate": 104,
        "shared_experts": 1,
        "key_value_rank": 24,
        "query_rank": 40,
        "plain_head": 16,
        "rotary_head": 32,
        "value_head": 24,
    }
    if "qk_rope_head_dim" in usual:
        wanted |= {"head_dim": wanted["rotary_head"], "key_value_heads": wanted["heads"]}
    aliases = transformers.AutoConfig.for_model(model_type).attribute_map.values()
    config = {
        key: wanted[size]
        for size, keys in KEYS.items()
        if size in wanted
        for key in keys
        if key in usual or key in aliases
    }
    config |= {key: 1 for key, value in usual.items() if key.endswith("_token_id") and isinstance(value, int)}
    config |= {key: groups * heads for key in usual if key.endswith("coder_attention_heads")}
    config |= {key: wanted["intermediate"] for key in usual if key.endswith("coder_ffn_dim")}
    if "first_k_dense_replace" in usual:
        config["first_k_dense_replace"] = 0
    if model_type in ("t5", "mt5", "umt5"):
        config["decoder_start_token_id"] = 0
    if "n_group" in usual:
        config |= {"n_group": 1, "topk_group": 1}
    return {"model_type": model_type, **config}


def ways(model_type: str) -> list[tuple[str, bool]]:
    kinds = ("sdpa", "eager") if MEASURED[model_type]["attention"] == "sdpa" else ("eager",)
    return [(kind, is_checkpointed) for kind in kinds for is_checkpointed in (False, True)]


def off(config: dict, computed: Pass, measured: range) -> float:
    """How far the likely is off what was measured; the band has to contain that."""
    if computed.attention is not None:
        computed = computed._replace(kernels="transformers", loss="logits")
    band = activations(config, computed)
    assert band is not None
    assert band.least <= band.likely <= band.most
    assert band.least <= measured[-1], (config, computed, band, measured)
    assert band.most >= measured[0], (config, computed, band, measured)
    nearest = min(max(band.likely, measured[0]), measured[-1])
    return band.likely / nearest - 1


@pytest.mark.parametrize("model_type", ["llama", "mixtral"])
def test_other_sizes(model_type):
    found = of_type(model_type, [(2, 160)], layers=2)
    assert statistics.median(map(abs, found)) < 0.05


@pytest.mark.long
@pytest.mark.parametrize("model_type", sorted(MEASURED))
def test_all_types(model_type):
    found = of_type(model_type, [(1, 320), (3, 110)], layers=5)
    print(model_type, [f"{one:+.1%}" for one in found])
    assert statistics.median(map(abs, found)) < 0.05


def of_type(model_type: str, batches: list[tuple[int, int]], layers: int) -> list[float]:
    dice = random.Random(f"{model_type} again")
    found = []
    for micro_batch, length in batches:
        config = small(model_type, layers, dice)
        for attention, is_checkpointed in ways(model_type):
            computed = Pass(micro_batch, length, "bf16", is_checkpointed, attention)
            is_padded = micro_batch > 1 and attention == "sdpa"
            found.append(off(config, computed, peak(config, computed, is_padded=is_padded, is_fake=False)))
    return found


@pytest.mark.long
def test_what_is_not_known_is_in_the_band():
    config = small("llama", 4, random.Random(1))
    unknown = Pass(2, 64)
    found = [
        peak(config, unknown._replace(attention=kind, is_checkpointed=check), is_fake=False)
        for kind in ("sdpa", "eager")
        for check in (False, True)
    ]
    for one in found:
        off(config, unknown, one)


@pytest.mark.parametrize("model_type", ["llama"])
def test_a_layer_keeps_what_autograd_saves(model_type):
    dice = random.Random(3)
    config = small(model_type, 3, dice)
    key = next(key for key in KEYS["layers"] if key in config)
    for kind in ("sdpa", "eager"):
        computed = Pass(2, 48, "bf16", is_checkpointed=False, attention=kind)
        one_layer = saved(config | {key: 4}, computed) - saved(config, computed)
        known = sizes(config, MEASURED[model_type]["defaults"])
        counted = quantities(known, 2, 48)
        (form,) = MEASURED[model_type]["variants"][kind]["layers"]
        assert sum(number * counted[name] for name, number in form.items()) == pytest.approx(one_layer, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize("config", PUBLISHED, ids=lambda config: config["model_type"])
def test_published_sizes(config):
    found = []
    for micro_batch, length in BATCHES:
        for attention, is_checkpointed in ways(config["model_type"]):
            longest = 512 if config["model_type"] == "bert" else config.get("n_positions", length)
            computed = Pass(micro_batch, min(length, longest), "bf16", is_checkpointed, attention)
            found.append(off(config, computed, peak(config, computed, is_fake=True)))
    print(config["model_type"], [f"{one:+.1%}" for one in found])


ADAPTED = {"adapters": (["q_proj", "v_proj"], False), "adapters-everywhere": ("all-linear", True)}


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(ADAPTED))
@pytest.mark.parametrize("model_type", ["llama", "qwen2", "mistral"])
def test_adapters(model_type, kind):
    pytest.importorskip("peft")
    targets, is_everywhere = ADAPTED[kind]
    dice = random.Random(f"{model_type} {kind}")
    found = []
    for rank in (8, 32):
        config = small(model_type, 5, dice)
        for attention, is_checkpointed in ways(model_type):
            for known in (is_everywhere, None):
                adapters = AdaptedLayers(rank, known, has_dropout=False if known is not None else None)
                computed = Pass(2, 64, "bf16", is_checkpointed, attention, adapters)
                found.append(off(config, computed, peak(config, computed, targets=targets, is_fake=False)))
    print(model_type, kind, [f"{one:+.1%}" for one in found])


@pytest.mark.long
@pytest.mark.parametrize("model_type", ["llama", "gpt2", "t5", "mixtral"])
def test_fp32(model_type):
    dice = random.Random(f"{model_type} in 32 bit")
    config = small(model_type, 4, dice)
    for attention, is_checkpointed in ways(model_type):
        computed = Pass(2, 64, "fp32", is_checkpointed, attention)
        off(config, computed, peak(config, computed, is_fake=False))

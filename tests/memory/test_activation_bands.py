"""The bands of activations; tests/fidelity/test_activations.py holds them to the real classes."""

from __future__ import annotations

import itertools
import json
import statistics
from pathlib import Path

import pytest
from newest import NEWEST

from ds_lint.footprint.activations import AdaptedLayers, Pass, activations
from ds_lint.footprint.quantities import KEYS, quantities, sizes
from ds_lint.knowledge import tables

LLAMA_8B = {
    "model_type": "llama",
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
}
KNOWN = Pass(4, 2048, "bf16", is_checkpointed=False, attention="sdpa", kernels="transformers", loss="logits")
STORE = tables.load("activations")["models"]
TRIALS = json.loads((Path(__file__).parents[2] / "tools/activations/trials.json").read_text(encoding="utf-8"))


def test_the_sum_of_layers_and_head_of_a_llama():
    """By hand: 16 H + 8 I + 4 Q + 4 K + 4 heads + 8 bytes a token and layer, and 12 V at the loss."""
    tokens = 2048
    layer = 16 * 4096 + 8 * 14336 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8
    head = 8 * 4096 + 12 * 128256 + 4
    band = activations(LLAMA_8B, KNOWN._replace(micro_batch=1))
    assert band.likely == pytest.approx(tokens * (32 * layer + head + 4 * 128), rel=1e-6)


def test_checkpointing_leaves_the_input_of_each_layer():
    full, checked = (activations(LLAMA_8B, KNOWN._replace(is_checkpointed=check)) for check in (False, True))
    assert checked.most < full.least / 3
    unknown = activations(LLAMA_8B, KNOWN._replace(is_checkpointed=None))
    assert (unknown.least, unknown.likely, unknown.most) == (checked.least, full.likely, full.most)


def test_eager_attention_grows_with_the_square_of_the_sequence():
    short, long = (
        activations(LLAMA_8B, Pass(1, length, "bf16", is_checkpointed=False, attention="eager")).likely
        for length in (4096, 16384)
    )
    assert 12 < long / short < 16
    fused = activations(LLAMA_8B, Pass(1, 16384, "bf16", is_checkpointed=False, attention="flash_attention_2"))
    assert fused.likely < long / 5


def test_a_mask_for_each_layer_grows_with_the_square_of_the_sequence_and_flash_attention_needs_none():
    """Of 131,072 tokens, 2 bytes for each pair and layer are 1 TiB; the band of flash attention has none of it."""
    long = KNOWN._replace(micro_batch=1, sequence_length=131072, is_checkpointed=False)
    masked, flash = (activations(LLAMA_8B, long._replace(attention=kind)) for kind in ("sdpa", "flash_attention_2"))
    assert masked.most - flash.most > 32 * 2 * 131072**2
    assert flash.most < 1.3 * flash.least


def test_the_sum_of_layers_and_loss_of_a_llama_with_kernels_of_liger():
    """By hand: a norm keeps its input, the activation both of its own, and logits are there for a chunk of tokens.

    8 H + 6 I + 4 Q + 4 K + 4 heads + 8 bytes a token and layer; at the loss the gradient of the head, too.
    """
    tokens, chunk = 2048, 64  # 2048 tokens in 32 parts of 4096 columns
    layer = 8 * 4096 + 6 * 14336 + 4 * 4096 + 4 * 1024 + 4 * 32 + 8
    loss = tokens * (6 * 4096 + 17) + 2 * 4096 * 128256 + 2 * chunk * 128256
    band = activations(LLAMA_8B, KNOWN._replace(micro_batch=1, kernels="liger", loss="fused"))
    assert band.likely == pytest.approx(tokens * (32 * layer + 4 * 128) + loss, rel=1e-6)


@pytest.mark.parametrize("loss", ["logits", "fused", "cut"])
@pytest.mark.parametrize("kernels", ["transformers", "liger"])
def test_kernels_and_loss_that_are_not_known_are_covered(kernels, loss):
    unknown = activations(LLAMA_8B, KNOWN._replace(kernels=None, loss=None, is_checkpointed=True))
    known = activations(LLAMA_8B, KNOWN._replace(kernels=kernels, loss=loss, is_checkpointed=True))
    assert unknown.least <= known.least
    assert known.most <= unknown.most


def test_types_that_liger_does_not_know_stay_as_they_are():
    bloom = {"model_type": "bloom"} | STORE["bloom"]["defaults"]
    assert activations(bloom, KNOWN._replace(kernels="liger", loss="fused")) == activations(bloom, KNOWN)


def test_a_release_of_liger_that_sums_gradients_of_the_head_holds_three_times_as_many():
    liger = KNOWN._replace(is_checkpointed=True, kernels="liger", loss="fused")
    newer, older = (activations(LLAMA_8B, liger._replace(sums_head_gradients=sums)) for sums in (False, True))
    assert older.likely == newer.likely
    assert 0 < older.most - newer.most < 1.1 * 6 * 4096 * 128256


@pytest.mark.parametrize(
    ("release", "layer", "loss"),  # bytes of each query head's elements and key's, and of a token's logits
    [
        (NEWEST["transformers"], 4 * 4096 + 4 * 1024, 12),
        ("4.55.4", 6 * 4096 + 4 * 1024, 12),  # the output of attention once more
        ("4.53.3", 10 * 4096, 12),  # keys and values repeated for each query head
        ("4.47.1", 8 * 4096, 14),  # and logits in 32 bit, which are shifted as a copy
    ],
)
def test_a_llama_of_older_releases_of_transformers(release, layer, loss):
    tokens = 2048
    whole = 16 * 4096 + 8 * 14336 + layer + 4 * 32 + 8
    band = activations(LLAMA_8B, KNOWN._replace(micro_batch=1, transformers=release))
    assert band.likely == pytest.approx(tokens * (32 * whole + 8 * 4096 + loss * 128256), rel=1e-3)


def test_the_sums_give_what_models_of_each_type_held():
    """The bytes in trials.json are those of the real classes, which the sums were not made of alone."""
    off = {}
    for model_type, trial in ((name, one) for name, trials in TRIALS.items() for one in trials):
        for name, peak in trial["peaks"].items():
            if peak is not None:
                off[f"{model_type}, {name}"] = abs(_summed(model_type, trial, name) / peak - 1)
    assert len(off) > 500
    assert max(off.values()) < 0.09, max(off, key=off.get)  # of small models, whose highest moment is another
    assert statistics.quantiles(off.values(), n=20)[-1] < 0.03


def _summed(model_type: str, trial: dict, name: str) -> float:
    """The sum for a trial, whose model has three layers; Liger's loss is measured with two chunks of logits."""
    known = sizes(trial["config"], STORE[model_type]["defaults"])
    if name.endswith("liger"):
        known["vocabulary"] = known["hidden"] + 2 + known["vocabulary"] % (known["hidden"] - 2)
    counted = quantities(known, trial["micro_batch"], trial["sequence_length"], trial["rank"])
    variant = STORE[model_type]["variants"][name]
    held = [sum(number * counted[one] for one, number in form.items()) for form in variant["layers"]]
    return 3 * sum(held) + max(sum(number * counted[one] for one, number in form.items()) for form in variant["peaks"])


def test_with_attention_and_checkpointing_known_the_band_is_narrow():
    for check, (kernels, loss) in itertools.product((False, True), (("transformers", "logits"), ("liger", "fused"))):
        for kind, batch in itertools.product(("sdpa", "flash_attention_2"), ((1, 4096), (4, 2048))):
            computed = Pass(*batch, "bf16", check, kind, kernels=kernels, loss=loss)
            band = activations(LLAMA_8B, computed)
            assert band.most < 1.31 * band.least, computed


def test_what_is_not_known_is_covered():
    unknown = activations(LLAMA_8B, KNOWN._replace(attention=None, is_checkpointed=None))
    for kind, check in itertools.product(("sdpa", "eager", "flash_attention_2"), (False, True)):
        known = activations(LLAMA_8B, KNOWN._replace(attention=kind, is_checkpointed=check))
        assert unknown.least <= known.least
        assert known.most <= unknown.most


def test_adapters_keep_less_and_dropout_more():
    full = activations(LLAMA_8B, KNOWN)
    few, many = (
        activations(LLAMA_8B, KNOWN._replace(adapters=AdaptedLayers(16, where, False))) for where in (False, True)
    )
    assert few.likely < many.likely < full.likely
    assert activations(LLAMA_8B, KNOWN._replace(adapters=AdaptedLayers(16, True, True))).likely > many.likely
    unknown = activations(LLAMA_8B, KNOWN._replace(adapters=AdaptedLayers(16)))
    assert unknown.least <= few.least
    assert many.most <= unknown.most


def test_32_bit_is_at_most_twice_as_much():
    half, full = (activations(LLAMA_8B, KNOWN._replace(dtype=dtype)).likely for dtype in ("fp16", "fp32"))
    assert half < full < 2 * half


def test_dropout_that_was_measured_otherwise_widens_the_band():
    gpt2 = {"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257}
    usual, without = (activations(gpt2 | more, KNOWN) for more in ({}, {"resid_pdrop": 0.0}))
    assert without.likely == usual.likely
    assert without.least < usual.least


def test_the_text_part_of_several_modalities():
    assert activations({"model_type": "llava", "text_config": LLAMA_8B}, KNOWN) == activations(LLAMA_8B, KNOWN)


def test_a_config_without_sizes_has_none():
    assert activations({"model_type": "a-new-one"}, KNOWN) is None


def test_keys_that_are_left_out_are_those_of_the_class():
    assert activations({"model_type": "llama"}, KNOWN) == activations(
        {"model_type": "llama"} | STORE["llama"]["defaults"], KNOWN
    )


SIZES = [  # hidden, intermediate, heads, key and value heads, layers, vocabulary
    (896, 4864, 14, 2, 24, 151936),
    (4096, 14336, 32, 8, 32, 128256),
]


def test_the_spread_covers_model_types_that_were_not_measured(monkeypatch):
    """Each model type in turn is as if it had not been measured."""
    inside, off = [], []
    for model_type, size in itertools.product(sorted(STORE), SIZES):
        config = _of_size(model_type, size)
        for batch, check, kind in itertools.product(((1, 512), (8, 2048)), (False, True), ("sdpa", None)):
            computed = Pass(*batch, "bf16", check, kind, kernels="transformers", loss="logits")
            measured = activations(config, computed)
            with monkeypatch.context() as patched:
                patched.delitem(STORE, model_type)
                guessed = activations(config | {"model_type": "unheard-of"}, computed)
            inside.append(guessed.least <= measured.likely <= guessed.most)
            off.append(abs(guessed.likely / measured.likely - 1))
    assert statistics.mean(inside) > 0.95
    assert statistics.median(off) < 0.1


def _of_size(model_type: str, size: tuple[int, ...]) -> dict:
    hidden, intermediate, heads, key_value_heads, layers, vocabulary = size
    wanted = {
        "hidden": hidden,
        "intermediate": intermediate,
        "heads": heads,
        "key_value_heads": key_value_heads,
        "head_dim": hidden // heads,
        "layers": layers,
        "decoder_layers": layers,
        "vocabulary": vocabulary,
        "experts": 64,
        "chosen": 4,
        "expert_intermediate": intermediate // 4,
        "shared_intermediate": intermediate // 4,
    }
    usual = STORE[model_type]["defaults"]
    norm = {"rms_norm_eps" if STORE[model_type]["has_rms_norm"] else "layer_norm_eps": 1e-5}
    return (
        norm | {"model_type": model_type} | {key: wanted[name] for name in wanted for key in KEYS[name] if key in usual}
    )

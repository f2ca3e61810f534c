"""Small models of a model type, with sizes by chance, and the variants of training that are measured."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import transformers

from ds_lint.footprint.quantities import KEYS, quantities, sizes
from tools.activations import kernels

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.model_shapes import Family

LAYERS = 3  # that what a layer adds can be separated from what the first one leaves behind
RANK_TARGETS = {"adapters": None, "adapters-everywhere": "all-linear"}
ATTENTIONS = ("sdpa", "sdpa-mask", "eager")
_NO_DROPOUT = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob")  # fused kernels hold nothing for it


class Variant(NamedTuple):
    """One way to train: the kind of attention, of checkpointing, of adapters, the dtype and the kernels."""

    attention: str
    is_checkpointed: bool
    adapters: str  # "", "adapters" or "adapters-everywhere"
    dtype: str = "bf16"
    kernels: str = ""  # "" are those of the class, "liger" those that replace them

    @property
    def name(self) -> str:
        """The name in the store."""
        words = (self.attention, "checkpointed" if self.is_checkpointed else "", self.adapters)
        return " ".join(word for word in (*words, "fp32" if self.dtype == "fp32" else "", self.kernels) if word)


class Probe(NamedTuple):
    """A model of some size, and the batch that it is trained on."""

    config: dict[str, Any]
    micro_batch: int
    sequence_length: int
    rank: int

    def quantities(self, defaults: dict[str, Any]) -> dict[str, int]:
        """What its bytes are counted in."""
        return quantities(sizes(self.config, defaults) or {}, self.micro_batch, self.sequence_length, self.rank)

    def of(self, variant: Variant) -> Probe:
        """The model of a variant: one for the loss of Liger has the logits in two chunks, whatever its sizes are."""
        if not variant.kernels:
            return self
        key = next(key for key in KEYS["vocabulary"] if key in self.config)
        hidden = next(self.config[name] for name in KEYS["hidden"] if name in self.config)
        return self._replace(config=self.config | {key: hidden + 2 + self.config[key] % (hidden - 2)})


def variants(family: Family) -> list[Variant]:
    """The variants that a model type can be trained in."""
    kinds = attentions(family)
    found = plain_variants(family)
    adapters = [name for name, targets in RANK_TARGETS.items() if targets or default_targets(family.model_type)]
    found += [Variant(kinds[0], checks, name) for name in adapters for checks in (False, True)]
    return found + (_with_liger(kinds, adapters) if kernels.are_for(family.model_type) else [])


def plain_variants(family: Family) -> list[Variant]:
    """The variants that train all weights with the kernels of transformers."""
    kinds = attentions(family)
    found = [Variant(kind, checks, "") for kind in kinds for checks in (False, True)]
    return found + [Variant(kinds[0], checks, "", "fp32") for checks in (False, True)]


def _with_liger(kinds: Sequence[str], adapters: Sequence[str]) -> list[Variant]:
    """The variants with the kernels of Liger; eager attention is measured only where a class has no other."""
    ways = [(kind, "") for kind in kinds if kind != "eager" or kind == kinds[0]]
    ways += [(kinds[0], name) for name in adapters]
    return [Variant(kind, checks, name, kernels=kernels.LIGER) for kind, name in ways for checks in (False, True)]


def attentions(family: Family) -> list[str]:
    """The kinds of attention that a class has, the one first that transformers chooses."""
    has_fused = family.model_class._supports_sdpa  # noqa: SLF001 - transformers has no public word for it
    return list(ATTENTIONS) if has_fused else ["eager"]


def default_targets(model_type: str) -> Any:
    """The modules that peft gives adapters to, if a run does not say which."""
    from peft import utils  # which refuses some older releases of transformers

    return utils.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING.get(model_type)


def defaults(family: Family) -> dict[str, Any]:
    """The values of the keys about sizes that a config.json may leave out; not those that follow from other sizes."""
    values = family.config_class().to_dict()
    widths, heads = ([key for key in KEYS[size] if key in values] for size in ("hidden", "heads"))
    given = [dict.fromkeys(widths, 3), dict.fromkeys((*widths, *heads), 2)]
    others = [
        (factors, family.config_class(**{key: values[key] * factor for key, factor in factors.items()}).to_dict())
        for factors in given
    ]
    return {
        key: values[key]
        for keys in KEYS.values()
        for key in keys
        if isinstance(values.get(key), int)
        and all(key in factors or other.get(key) == values[key] for factors, other in others)
    }


def facts(family: Family) -> dict[str, Any]:
    """What a class says of itself that decides about its activations, beside the sizes."""
    usual = family.config_class().to_dict()
    return {
        "class": family.name,
        "attention": attentions(family)[0],
        "defaults": defaults(family),
        "has_rms_norm": any(key.startswith("rms_norm") for key in usual),
        "dropouts": {key: bool(value) for key, value in usual.items() if _is_dropout(key) and isinstance(value, float)},
    }


def _is_dropout(key: str) -> bool:
    return ("dropout" in key or key.endswith("_pdrop")) and not re.search("attention|attn|classi|qa_|summary", key)


def probes(family: Family, count: int) -> list[Probe]:
    """So many models whose sizes have nothing to do with each other."""
    dice = random.Random(family.model_type)  # noqa: S311 - sizes to try
    found: list[Probe] = []
    for place in range(count):
        length, rank = dice.randrange(9, 40), dice.choice([2, 3, 5, 8])
        micro_batch = 1 if place == count - 1 else 2 + place % 3  # some copies are not made of one sequence
        found.append(Probe(_config(family, dice, place), micro_batch, length, rank))
    return found


def _config(family: Family, dice: random.Random, place: int) -> dict[str, Any]:
    usual = family.config_class().to_dict()
    groups, key_value_heads = dice.choice([2, 3, 4]), dice.choice([2, 3, 4])
    if not any(key in usual for key in KEYS["key_value_heads"]):
        groups = 1
        key_value_heads = dice.choice([2, 4, 8])  # ALiBi makes more of any other number than a power of two
    heads, head_dim = groups * key_value_heads, dice.choice([16, 32, 48])
    has_head_dim = any(key in usual for key in KEYS["head_dim"])
    other = {
        "hidden": heads * (8 * dice.randrange(1, 7) if has_head_dim else head_dim),
        "intermediate": 8 * dice.randrange(10, 50),
        "heads": heads,
        "key_value_heads": key_value_heads,
        "head_dim": head_dim,
        "layers": LAYERS,
        "decoder_layers": LAYERS,
        "vocabulary": dice.randrange(60, 900),
        "experts": dice.randrange(6, 14),
        "chosen": 2 + place % 4,
        "expert_intermediate": 8 * dice.randrange(4, 20),
        "shared_intermediate": 8 * dice.randrange(4, 20),
        "shared_experts": dice.choice([1, 2, 3]),
        "key_value_rank": 8 * dice.randrange(3, 9),
        "query_rank": 8 * dice.randrange(3, 9),
        "plain_head": 8 * dice.randrange(2, 6),
        "rotary_head": 16 * dice.randrange(1, 3),
        "value_head": 8 * dice.randrange(2, 6),
    }
    if any(key in usual for key in KEYS["rotary_head"]):
        other |= {"head_dim": other["rotary_head"], "key_value_heads": heads}
    given: dict[str, Any] = {}
    for size, keys in KEYS.items():
        names = [key for key in keys if key in usual] or [
            written for written in family.config_class.attribute_map.values() if written in keys
        ]
        for name in names:
            given[name] = other[size]
    for key in usual:
        if key.endswith("_token_id") and usual[key] is not None and not isinstance(usual[key], list):
            given[key] = 1
        if key in ("encoder_attention_heads", "decoder_attention_heads"):
            given[key] = heads
        if key in ("encoder_ffn_dim", "decoder_ffn_dim"):
            given[key] = other["intermediate"]
    given.update(_SPECIAL.get(family.model_type, {}))
    return given


_SPECIAL: dict[str, dict[str, Any]] = {  # layers that are all of one kind, and what a class does not set itself
    "gptj": {"rotary_dim": 16},
    "deepseek_v3": {"first_k_dense_replace": 0, "n_group": 1, "topk_group": 1},
    "deepseek_v2": {"first_k_dense_replace": 0},
    "glm4_moe": {"first_k_dense_replace": 0},
}


def build(family: Family, probe: Probe, variant: Variant, layers: dict[str, int] | None = None) -> torch.nn.Module:
    """A model to train in this way."""
    usual = family.config_class().to_dict()
    without = {key: 0.0 for key in _NO_DROPOUT if key in usual}
    config = family.config_class(**{**probe.config, **without, **(layers or {})})
    config.use_cache = False
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    config._attn_implementation = variant.attention.partition("-")[0]  # noqa: SLF001 - an argument of from_pretrained
    model = family.model_class(config)
    if variant.adapters:
        import peft

        wanted = RANK_TARGETS[variant.adapters] or default_targets(family.model_type)
        lora = peft.LoraConfig(r=probe.rank, target_modules=wanted, lora_dropout=0.0)
        model.enable_input_require_grads()
        model = peft.get_peft_model(model, lora)
    if variant.kernels:
        kernels.apply(model)
    if variant.is_checkpointed:
        model.gradient_checkpointing_enable()
    return model.to(torch.bfloat16 if variant.dtype == "bf16" else torch.float32).train()


def batch(family: Family, probe: Probe, variant: Variant) -> dict[str, torch.Tensor]:
    """A batch for it; with a mask, one sequence is shorter than the others."""
    vocabulary = next(probe.config[key] for key in KEYS["vocabulary"] if key in probe.config)
    ids = torch.randint(2, vocabulary, (probe.micro_batch, probe.sequence_length))
    inputs = {"input_ids": ids, "labels": ids.clone()}
    # Without one, some releases of transformers 4 make a mask for packed sequences. Data collators always give one.
    if variant.attention == "sdpa-mask" or transformers.__version__ < "5":
        inputs["attention_mask"] = torch.ones_like(ids)
    if variant.attention == "sdpa-mask":
        inputs["attention_mask"][0, -2:] = 0
    return inputs

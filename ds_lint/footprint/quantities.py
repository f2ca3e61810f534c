"""The sizes of a model that decide how much a training step holds, and the quantities that they make with a batch.

``schemas/activations.json`` says what a model type holds as so many bytes of each quantity; ``tools/activations``
measures it with the same quantities.
"""

from __future__ import annotations

from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

KEYS = {  # of config.json, by what they are the size of
    "hidden": ("hidden_size", "n_embd", "d_model", "dim"),
    "intermediate": (
        "intermediate_size",
        "ffn_dim",
        "d_ff",
        "n_inner",
        "ffn_hidden_size",
        "encoder_ffn_dim",
        "hidden_dim",
    ),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
    "key_value_heads": ("num_key_value_heads", "num_kv_heads"),
    "head_dim": ("head_dim", "d_kv"),
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"),
    "decoder_layers": ("decoder_layers", "num_decoder_layers"),
    "vocabulary": ("vocab_size",),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "chosen": ("num_experts_per_tok", "moe_k"),  # experts of one token
    "expert_intermediate": ("moe_intermediate_size",),
    "shared_intermediate": ("shared_expert_intermediate_size",),
    "shared_experts": ("n_shared_experts", "moe_num_shared_experts"),
    "key_value_rank": ("kv_lora_rank",),
    "query_rank": ("q_lora_rank",),
    "plain_head": ("qk_nope_head_dim",),
    "rotary_head": ("qk_rope_head_dim",),
    "value_head": ("v_head_dim",),
}
_NEEDED = ("hidden", "heads", "layers", "vocabulary")


def sizes(config: dict[str, Any], defaults: dict[str, Any]) -> dict[str, int] | None:
    """The sizes of a model by its ``config.json``; ``defaults`` are the values of keys that it leaves out."""
    found: dict[str, int] = {}
    for size, keys in KEYS.items():
        for key in keys:
            value = config[key] if key in config else defaults.get(key)
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
                found[size] = value
                break
    if any(not found.get(size) for size in _NEEDED):
        return None
    found.setdefault("head_dim", found["hidden"] // found["heads"])
    found.setdefault("intermediate", 4 * found["hidden"])
    found.setdefault("key_value_heads", found["heads"])
    if found.get("experts") and found.get("chosen"):
        expert = found.setdefault("expert_intermediate", found["intermediate"])
        found.setdefault("shared_intermediate", expert * found.get("shared_experts", 0))
    return found


def text_part(config: dict[str, Any]) -> dict[str, Any]:
    """The part of a config of several modalities that holds the layers of the language model."""
    text = config.get("text_config")
    return text if isinstance(text, dict) and "model_type" in text else config


def kind_of(values: Iterable[str]) -> tuple[bool, bool]:
    """Whether a model has a decoder beside an encoder, and whether it has experts, by its sizes or their keys."""
    has_decoder = any(key in values for key in KEYS["decoder_layers"])
    has_experts = any(key in values for key in ("experts", *KEYS["experts"]))
    return has_decoder, has_experts


def quantities(sizes: dict[str, int], micro_batch: int, sequence_length: int, rank: int = 0) -> dict[str, int]:
    """What bytes are counted in, by name: numbers of elements of tensors, the most telling first.

    ``rank`` is that of adapters.
    """
    tokens = micro_batch * sequence_length
    heads, head_dim, key_value_heads = sizes["heads"], sizes["head_dim"], sizes["key_value_heads"]
    chosen = sizes.get("chosen", 0) if sizes.get("experts") else 0
    a_token = {  # what each token has
        "hidden": sizes["hidden"],
        "intermediate": sizes["intermediate"],
        "vocabulary": sizes["vocabulary"],
        "query": heads * head_dim,
        "key": key_value_heads * head_dim,
        "heads": heads,
        "one": 1,
        "head_dim": head_dim,
        "chosen*hidden": chosen * sizes["hidden"],
        "chosen*expert": chosen * sizes.get("expert_intermediate", 0),
        "chosen": chosen,
        "experts": sizes.get("experts", 0) if chosen else 0,
        "shared": sizes.get("shared_intermediate", 0) if chosen else 0,
        "value": heads * sizes.get("value_head", 0),
        "plain": heads * sizes.get("plain_head", 0),
        "rotary": heads * sizes.get("rotary_head", 0),
        "one_rotary": sizes.get("rotary_head", 0),
        "key_value_rank": sizes.get("key_value_rank", 0),
        "query_rank": sizes.get("query_rank", 0),
        "rank": rank,
    }
    named = {f"token*{name}": tokens * number for name, number in a_token.items()}
    return named | {
        "score*heads": tokens * sequence_length * heads,
        "score": tokens * sequence_length,
        "position*position": sequence_length * sequence_length,
        "position*position*heads": sequence_length * sequence_length * heads,
        "position*head_dim": sequence_length * head_dim,
        "position*rotary": sequence_length * sizes.get("rotary_head", 0),
        "position*hidden": sequence_length * sizes["hidden"],
        "position": sequence_length,
        "vocabulary*hidden": sizes["vocabulary"] * sizes["hidden"],
        "shifted*vocabulary": (tokens - micro_batch) * sizes["vocabulary"],  # without the last token of each sequence
        "chunk*vocabulary": _chunk(tokens, sizes["vocabulary"], sizes["hidden"]) * sizes["vocabulary"],
        "experts*hidden": a_token["experts"] * sizes["hidden"],
        "experts*expert": a_token["experts"] * sizes.get("expert_intermediate", 0),
        "one": 1,
    }


def _chunk(tokens: int, vocabulary: int, hidden: int) -> int:
    """The tokens whose logits Liger computes at once: ``chunk_size`` in its ops/fused_linear_cross_entropy.py."""
    part = -(-tokens // -(-vocabulary // hidden))
    return min(1 << (part - 1).bit_length(), tokens)

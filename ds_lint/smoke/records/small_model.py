"""Shrinks the ``config.json`` of a model: the same architecture with the same features, trained in a second.

The keys for sizes are found by the names that model types give them. Related sizes stay consistent: query heads and
the key heads that they share, the layers of each kind, a rope and the heads that it rotates.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

if TYPE_CHECKING:
    Part = dict[str, Any]  # a part or all of the config.json of any model, with unknown keys and types
    from collections.abc import Iterable, Iterator


class Sizes(NamedTuple):
    """The maximum sizes of a model; smaller sizes stay unchanged."""

    hidden: int = 64
    layers: int = 2  # more if there are more kinds of layers
    heads: int = 4
    feed_forward: int = 128
    vocabulary: int = 128
    experts: int = 4
    chosen_experts: int = 2
    positions: int = 128
    window: int = 8  # less than the tokens of a batch, so that it cuts something off
    adapter_rank: int = 8  # of LoRA


TINY = Sizes()
# A parameter goes to NVMe from 1 MiB of each rank on (MIN_SWAPPABLE_BYTES in deepspeed/runtime/swap_tensor/utils.py):
# in 16 bit those of 8192 * 256 elements do with up to four ranks.
# The states of all adapters together go there, from the same size on.
SWAPPED = Sizes(hidden=256, feed_forward=512, vocabulary=8192, adapter_rank=128)


class Change(NamedTuple):
    """One value of the config that differs in the small one."""

    key: str  # dotted
    before: Any  # None: not set
    after: Any  # None: removed


class Shrunk(NamedTuple):
    """A small config, and its changes."""

    config: Part
    changes: list[Change]


_LAYERS = (
    "num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_decoder_layers", "num_encoder_layers",
    "encoder_layers", "decoder_layers", "encoder_num_hidden_layers", "decoder_num_hidden_layers", "depth", "layers",
    "num_layers_per_stack", "num_blocks", "num_global_layers",
)  # fmt: skip
# The period of the layers of another kind.
_PERIODS = (
    "sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers", "full_attention_interval",
    "no_rope_layer_interval", "attn_layer_period", "expert_layer_period", "encoder_sparse_step", "decoder_sparse_step",
    "interleave_moe_layer_step", "moe_layer_interval", "layer_group_size", "cross_attention_frequency",
    "n_layers_per_attn_res_block",
)  # fmt: skip
_OFFSETS = ("attn_layer_offset", "expert_layer_offset")  # of the first of them
_OF_LAYERS = "per_layer_config"  # settings of single layers, by their number
_DENSE = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index")  # layers at the start without experts
_CYCLES = ("block_types",)  # the kinds of layers that repeat through the model
# Positions of layers: each shrinks to an existing one.
_PLACES = (
    "mlp_only_layers", "attn_layer_indices", "full_attn_idxs", "cross_attention_layers", "moe_layers",
    "full_attention_layers", "hybrid_layer_ids", "deepstack_visual_indexes", "fullatt_block_indexes",
    "intermediate_layers_indices", "slstm_at", "global_attn_indexes",
)  # fmt: skip

_HIDDEN = (
    "hidden_size", "n_embd", "d_model", "dim", "emb_dim", "embedding_size", "embedding_dim", "embed_dim",
    "word_embed_proj_dim", "encoder_hidden_size", "pooler_hidden_size", "out_hidden_size", "text_hidden_size",
    "projection_dim", "projector_hidden_size", "prediction_head_size", "lru_width", "hidden_size_global",
    "cross_attention_hidden_size", "output_dim", "ple_embed_dim", "backbone_hidden_size",
)  # fmt: skip
_EMBEDDINGS = ("embedding_size", "word_embed_proj_dim")  # narrower than the layers if they are projected
_HEADS = (
    "num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads", "decoder_attention_heads",
    "attention_heads", "swa_num_attention_heads", "linear_num_heads", "linear_num_value_heads", "index_n_heads",
    "resampler_n_heads",
)  # fmt: skip
# Heads that several query heads share, and the keys of these query heads.
_SHARED_HEADS = {
    "num_key_value_heads": _HEADS[:4],
    "num_kv_heads": _HEADS[:4],
    "kv_n_heads": ("n_heads",),
    "swa_num_key_value_heads": ("swa_num_attention_heads",),
    "linear_num_key_heads": ("linear_num_value_heads",),
}
_HEAD_WIDTHS = (
    "head_dim", "d_kv", "dim_head", "d_head", "kv_channels", "swa_head_dim", "global_head_dim", "qk_nope_head_dim",
    "v_head_dim", "linear_head_dim", "linear_key_head_dim", "linear_value_head_dim", "index_head_dim",
    "query_pre_attn_scalar", "resampler_head_dim", "mamba_d_head", "mamba_head_dim", "attention_head_dim",
)  # fmt: skip
_HALF_HEAD_WIDTHS = ("qk_rope_head_dim", "kv_lora_rank", "q_lora_rank", "o_lora_rank", "d_rel", "laurel_rank")
_FEED_FORWARD = (
    "intermediate_size", "n_inner", "d_ff", "dff", "dim_ff", "d_inner", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim",
    "ffn_hidden_size", "hidden_dim", "mlp_dim", "moe_intermediate_size", "moe_ffn_hidden_size",
    "expert_ffn_hidden_size", "shared_expert_intermediate_size", "shared_experts_intermediate_size",
    "moe_shared_expert_intermediate_size", "shared_intermediate_size", "dense_intermediate_size",
    "intermediate_size_mlp",
)  # fmt: skip
_EXPERTS = (
    "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts", "num_routed_experts", "zero_expert_num",
)  # fmt: skip
_CHOSEN_EXPERTS = (
    "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k", "top_k_experts",
    "num_selected_experts",
)  # fmt: skip
_VOCABULARY = (
    "vocab_size", "vocab_size_per_layer_input", "decoder_vocab_size", "unpadded_vocab_size", "src_vocab_size",
    "tgt_vocab_size", "entity_vocab_size", "encoder_hash_byte_group_vocab",
)  # fmt: skip
_POSITIONS = (
    "max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length", "max_seq_len", "model_max_length",
    "max_encoder_position_embeddings", "max_decoder_position_embeddings", "max_source_positions",
    "max_target_positions",
)  # fmt: skip
_WINDOWS = (
    "sliding_window", "local_attention", "attention_chunk_size", "attention_window_size", "window_size",
    "sliding_window_size", "local_attention_window_len", "attention_window", "index_topk",
)  # fmt: skip
_CHUNKS = ("chunk_size", "mamba_chunk_size")
_STATES = ("state_size", "mamba_d_state", "ssm_state_size", "time_step_rank", "mamba_dt_rank")  # of state space models
_ONES = (
    "n_group", "topk_group", "num_expert_group", "n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
    "n_groups", "mamba_n_groups", "pad_vocab_size_multiple_of", "o_groups",
)  # fmt: skip

TOKEN_KEYS = ("token_id", "token_ids", "token_index", "_index")  # how the names of special tokens end

# The path of the model, its quantization, its code and its dtype. Without a dtype it is created in fp32, as DeepSpeed
# expects: the sections of its config set the training dtype.
_DROPPED = ("quantization_config", "compression_config", "_name_or_path", "auto_map", "dtype", "torch_dtype")


def shrink(config: Part, sizes: Sizes = TINY) -> Shrunk:
    """A config of the same architecture, not larger than ``sizes``."""
    small = copy.deepcopy(config)
    _shrink_part(small, sizes, {})
    return Shrunk(small, list(_changes(config, small)))


def _shrink_part(part: Part, sizes: Sizes, whole: Part) -> None:
    """Shrink one part of a config in place; ``whole`` is the part around it, before it was shrunk."""
    before = {**whole, **part}
    for key in _DROPPED:
        part.pop(key, None)
    _shrink_layers(part, sizes)
    _shrink_heads(part, sizes, before)
    for keys, limit in (
        (_FEED_FORWARD, sizes.feed_forward),
        (_EXPERTS, sizes.experts),
        (_CHOSEN_EXPERTS, sizes.chosen_experts),
        (_VOCABULARY, sizes.vocabulary),
        (_POSITIONS, sizes.positions),
        (_WINDOWS, sizes.window),
        (_CHUNKS, 2 * sizes.window),
        (_STATES, sizes.hidden // 4),
        (_ONES, 1),
    ):
        _limit(part, keys, limit)
    _keep_tokens_inside(part, sizes.vocabulary)
    _shrink_rope(part, before)
    for inner in _inner_parts(part):
        _shrink_part(inner, sizes, before)


def _inner_parts(part: Part) -> Iterator[Part]:
    for key, value in part.items():
        if isinstance(value, dict) and (key.endswith("_config") or key in ("encoder", "decoder")):
            yield from value.values() if key == _OF_LAYERS else [value]


def _limit(part: Part, keys: Iterable[str], limit: int) -> None:
    """Limit numbers, also those in a list with one per layer."""
    for key in keys:
        value = part.get(key)
        if isinstance(value, list):
            part[key] = [min(number, limit) if _is_number(number) else number for number in value]
        elif _is_number(value):
            part[key] = min(value, limit)


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _first(part: Part, keys: Iterable[str]) -> int | None:
    return next((part[key] for key in keys if _is_number(part.get(key))), None)


# Layers


def _shrink_layers(part: Part, sizes: Sizes) -> None:
    """Keep a layer of every kind, if lists or periods define kinds."""
    count = _first(part, _LAYERS)
    lists = [key for key, value in part.items() if _is_per_layer(key, value, count)]
    kept = _layers_of_each_kind([part[key] for key in lists], count or 0, sizes.layers)
    for key in lists:
        part[key] = [part[key][place] for place in kept]
    _limit(part, _LAYERS, max(len(kept), sizes.layers))
    _limit(part, _PERIODS, sizes.layers)
    _limit(part, _OFFSETS, sizes.layers - 1)
    _limit(part, _DENSE, sizes.layers - 1)
    _limit(part, ("max_window_layers",), sizes.layers)
    _limit(part, ("num_kv_shared_layers",), 0)  # too few layers to share with others of their kind
    for key in _CYCLES:
        if isinstance(part.get(key), list):
            part[key] = list(dict.fromkeys(part[key]))
    if isinstance(part.get(_OF_LAYERS), dict):
        part[_OF_LAYERS] = _renumbered(part[_OF_LAYERS], kept or list(range(sizes.layers)))
    for key in _PLACES:
        if isinstance(part.get(key), list) and count and count > sizes.layers:
            part[key] = _places(part[key], sizes.layers)


def _renumbered(of_layers: dict[Any, Any], kept: list[int]) -> Part:
    """The settings of single layers, under their new numbers."""
    by_number = {int(place): value for place, value in of_layers.items()}
    return {str(new): by_number[old] for new, old in enumerate(kept) if old in by_number}


def _is_per_layer(key: str, value: Any, count: int | None) -> bool:
    return isinstance(value, list) and len(value) == count and not key.endswith(("token_id", "architectures"))


def _layers_of_each_kind(lists: list[list[Any]], count: int, wanted: int) -> list[int]:
    """Layers of every kind in the lists, in the order of the model, and others up to the wanted number."""
    kept: list[int] = []
    for values in lists:
        if all(isinstance(value, str) or value in (0, 1) for value in values):  # numbers are sizes, not kinds
            for kind in dict.fromkeys(values):
                if all(values[place] != kind for place in kept):
                    kept.append(values.index(kind))
    others = [place for place in range(count) if place not in kept]
    return sorted(kept + others[: max(0, wanted - len(kept))])


def _places(places: list[Any], count: int) -> list[Any]:
    """Positions among fewer layers: those that still exist, else the last."""
    return [place for place in places if place < count] or [count - 1] * bool(places)


# Heads


def _shrink_heads(part: Part, sizes: Sizes, before: Part) -> None:
    """Fewer heads that divide the hidden size, with as many query heads per key head as before."""
    _limit(part, _HIDDEN, sizes.hidden)
    hidden = _first(part, _HIDDEN) or sizes.hidden
    for key in _EMBEDDINGS:
        if key in part and _is_number(before.get("hidden_size")) and before[key] < before["hidden_size"]:
            part[key] = min(part[key], hidden // 2)
    for key in _HEADS:
        heads = part.get(key)
        if _is_number(heads) and (heads > sizes.heads or hidden % max(heads, 1)):
            part[key] = next(fewer for fewer in range(min(heads, sizes.heads), 0, -1) if hidden % fewer == 0)
    for key, sharers in _SHARED_HEADS.items():
        sharing, shared = _first(before, sharers), part.get(key)
        if sharing and _is_number(shared):
            part[key] = _in_proportion(shared, sharing, _first({**before, **part}, sharers) or 1, sizes.heads)
    width = hidden // min(_first(part, _HEADS) or sizes.heads, sizes.heads)
    _limit(part, _HEAD_WIDTHS, width)
    _limit(part, _HALF_HEAD_WIDTHS, width // 2)
    _join_rope_heads(part, before)
    _fill_state_space(part, hidden, sizes.heads)
    if _is_number(part.get("rotary_dim")) and (old := _head_width(before)):
        part["rotary_dim"] = max(2, part["rotary_dim"] * min(width, old) // old // 2 * 2)


def _join_rope_heads(part: Part, before: Part) -> None:
    """A head of multi-head latent attention has a part with rope and one without; other keys repeat their sizes."""
    rope, plain = part.get("qk_rope_head_dim"), part.get("qk_nope_head_dim")
    if _is_number(rope) and _is_number(plain):
        if "qk_head_dim" in part:
            part["qk_head_dim"] = rope + plain
        if part.get("head_dim") and before["head_dim"] == before["qk_rope_head_dim"]:
            part["head_dim"] = rope


def _fill_state_space(part: Part, hidden: int, limit: int) -> None:
    """The heads of a state space model share its hidden size, expanded."""
    expand = _first(part, ("mamba_expand", "expand"))
    for heads, width in (
        ("mamba_n_heads", "mamba_d_head"),
        ("n_mamba_heads", "mamba_headdim"),
        ("num_heads", "head_dim"),
    ):
        if expand and heads in part and width in part:
            part[heads] = min(part[heads], limit)
            part[width] = expand * hidden // part[heads]
            if "mamba_d_ssm" in part:
                part["mamba_d_ssm"] = expand * hidden


def _in_proportion(shared: int, sharing: int, left: int, limit: int) -> int:
    """Key heads for the remaining query heads: at least one, and a divisor of them."""
    left = min(left, limit)
    wanted = max(1, min(left, round(left * shared / sharing)))
    return next(number for number in range(wanted, 0, -1) if left % number == 0)


def _head_width(part: Part) -> int | None:
    hidden, heads = _first(part, _HIDDEN), _first(part, _HEADS)
    named = _first(part, ("head_dim", "d_kv"))
    return named or (hidden // heads if hidden and heads else None)


# Tokens and positions


def _keep_tokens_inside(part: Part, vocabulary: int) -> None:
    """Keep special tokens inside the vocabulary, and different from each other if possible."""
    for key, value in part.items():
        if key.endswith(TOKEN_KEYS):
            if isinstance(value, list):
                part[key] = list(dict.fromkeys(_inside(token, vocabulary) for token in value))
            else:
                part[key] = _inside(value, vocabulary)


def _inside(token: Any, vocabulary: int) -> Any:
    """The last tokens of a vocabulary become the last of the small one."""
    return vocabulary - 1 - token % (vocabulary // 2) if _is_number(token) and token >= vocabulary else token


def _shrink_rope(part: Part, before: Part) -> None:
    """The same kind of rope for narrower heads and fewer positions; lists have one entry per two elements of a head."""
    old, new = _head_width(before), _head_width(part)
    positions = _first(before, _POSITIONS), _first(part, _POSITIONS)
    for rope in _ropes(part):
        if old and new:
            for key in ("short_factor", "long_factor"):
                if isinstance(rope.get(key), list):
                    rope[key] = rope[key][: len(rope[key]) * new // old]
            if isinstance(rope.get("mrope_section"), list):
                rope["mrope_section"] = _sections(len(rope["mrope_section"]), sum(rope["mrope_section"]) * new // old)
    if positions[0] and positions[1]:
        for holder in (part, *_ropes(part)):
            key = "original_max_position_embeddings"
            if _is_number(holder.get(key)):
                holder[key] = max(1, holder[key] * positions[1] // positions[0])


def _ropes(part: Part) -> Iterator[Part]:
    """The settings of the rope: one, or one for each kind of layer."""
    for key in ("rope_scaling", "rope_parameters"):
        if isinstance(part.get(key), dict):
            yield part[key]
            yield from (of_kind for of_kind in part[key].values() if isinstance(of_kind, dict))


def _sections(count: int, total: int) -> list[int]:
    """Sections of equal size; the first also gets the rest."""
    share = total // count
    return [total - share * (count - 1), *[share] * (count - 1)]


# What is different


def _changes(before: Part, after: Part, path: str = "") -> Iterator[Change]:
    for key, value in before.items():
        left = after.get(key)
        if isinstance(value, dict) and isinstance(left, dict):
            yield from _changes(value, left, f"{path}{key}.")
        elif value != left:
            yield Change(path + key, value, left)

"""A model of which nothing but the number of parameters is known, such as ``7B``."""

from __future__ import annotations

import re

from ds_lint.facts.model import Model
from ds_lint.facts.unreadable import UnreadableFact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject

_COUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMBT]?)", re.IGNORECASE)
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_LEAST, _MOST = 10**6, 10**14
_VOCABULARY = 128_256  # tokens of a large model; a small one has fewer
_SMALL_VOCABULARY, _SMALL = 32_000, 3 * 10**9
_LAYER_WIDTH = 112  # hidden size for each layer: 128 in models of 7 billion parameters, 102 in those of 70 billion
_INNER = 3.0  # times the hidden size: the width of the feed-forward part, which published models have around
_STEP = 128  # between widths
OTHER_SHAPES = 2  # how far models of one size are apart in width, depth and vocabulary; a round number


def parameter_count(text: str) -> int:
    """The number that ``7B``, ``1.3b``, ``350M`` or ``6738415616`` means; raises UnreadableFact."""
    found = _COUNT.fullmatch(text.strip())
    number = float(found[1]) * _UNITS[found[2].upper()] if found else 0
    count = round(min(number, 2.0 * _MOST))
    if found and not found[2] and found[1].isdecimal() and count <= _MOST:
        count = int(found[1])  # exactly
    if not _LEAST <= count <= _MOST:
        raise UnreadableFact(f"{text!r} is not a valid number of parameters such as 7B or 350M")
    return count


def stand_in(count: int) -> Model:
    """A dense decoder with about so many parameters, in the place of a model whose shapes are not known."""
    config = _config(count)
    origin = f"{count:,} parameters, with the shapes of a dense decoder of about that size"
    return Model("", config, parameter_count=count, origin=origin, is_stand_in=True)


def _config(count: int) -> JsonObject:
    """The config of the decoder of the Llama family that comes closest, with the usual proportions."""
    vocabulary = _VOCABULARY if count >= _SMALL else _SMALL_VOCABULARY
    vocabulary = min(vocabulary, max(256, count // 1024))
    tied = count < _SMALL
    candidates = [
        _Proportions(count, hidden, layers, vocabulary * hidden * (1 if tied else 2))
        for layers, hidden in _depths_and_widths(count)
    ]
    best = min(candidates, key=lambda one: one.distance)
    return {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": vocabulary,
        "hidden_size": best.hidden,
        "intermediate_size": best.inner,
        "num_hidden_layers": best.layers,
        "num_attention_heads": max(1, best.hidden // 128),
        "num_key_value_heads": max(1, best.hidden // 128),
        "max_position_embeddings": 4096,
        "tie_word_embeddings": tied,
    }


def _depths_and_widths(count: int) -> list[tuple[int, int]]:
    widest = int((count / 4) ** 0.5) // _STEP * _STEP + _STEP
    return [(max(2, round(width / _LAYER_WIDTH)), width) for width in range(_STEP, min(widest, 2**16), _STEP)]


class _Proportions:
    """The width of the feed-forward part with which a decoder of this depth and width has so many parameters."""

    __slots__ = ("distance", "hidden", "inner", "layers")

    def __init__(self, count: int, hidden: int, layers: int, embeddings: int) -> None:
        of_attention = layers * (4 * hidden * hidden + 2 * hidden) + hidden
        self.hidden, self.layers = hidden, layers
        self.inner = max(1, round((count - embeddings - of_attention) / (3 * layers * hidden)))
        self.distance = abs(self.inner / hidden - _INNER)

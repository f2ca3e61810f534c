"""What a rank has of the activations of a layer if ranks share its tensors, sequences or layers.

Tensor parallelism divides what the heads and the inner layers compute, and leaves each rank the whole hidden states.
Sequence parallelism divides the tokens; within attention a rank has the whole sequences of its part of the heads
(``UlyssesSPAttentionHF`` in ``deepspeed/runtime/sequence_parallel/ulysses_sp.py``).
"""

from __future__ import annotations

from typing import NamedTuple

_BY_HEADS = ("token*query", "token*key", "token*heads", "token*value", "token*plain", "token*rotary")
_INNER = ("token*intermediate", "token*chosen*expert", "token*shared")
_LOGITS = "token*vocabulary"
_SCORES = ("score*heads", "position*position*heads")


class Shared(NamedTuple):
    """How ranks share what a micro batch computes."""

    tensors: int = 1  # ranks
    logits: int = 1  # ranks that each compute those of a part of the vocabulary
    sequences: int = 1  # ranks
    layers: int | None = None  # of the rank's stage of a pipeline, counted once for each micro batch in flight
    has_head: bool = True


def of_rank(counted: dict[str, int], shared: Shared, key_value_heads: int) -> dict[str, int]:
    """The quantities of a rank, of those of a sequence's part that it computes."""
    found = dict(counted)
    if shared.tensors > 1:
        heads = -(-key_value_heads // shared.tensors) / key_value_heads if key_value_heads else 1
        for name in (*_BY_HEADS, *_SCORES):
            found[name] = round(found[name] * heads)
        for name in _INNER:
            found[name] = -(-found[name] // shared.tensors)
    found[_LOGITS] = -(-found[_LOGITS] // shared.logits)
    if shared.sequences > 1:  # scores of whole sequences, of a part of the heads
        for name in _SCORES:
            found[name] *= shared.sequences
    return found

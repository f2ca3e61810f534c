"""What a run takes that trains nothing, and what an evaluation takes beside a training.

Stage 3 without an optimizer has partitions, or what is offloaded of them, and gathers layer by layer in the forward
pass (``DeepSpeedZeRoOffload`` in ``deepspeed/runtime/zero/parameter_offload.py``): no gradients, no master weights, no
buckets. ``init_inference`` holds the whole model, the linear layers of its blocks divided among the ranks of
``tp_size`` (``deepspeed/module_inject/auto_tp.py``).
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory import forward
from ds_lint.memory.band import NOTHING, Band, exactly, total
from ds_lint.memory.forward import ForwardPass
from ds_lint.memory.placed import Amount, Placed, amount
from ds_lint.memory.quantities import sizes, text_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.tensors import Tensor
    from ds_lint.memory.setup import TrainingSetup
    from ds_lint.memory.untrained import Untrained

_SCORES = Band(2, 10, 30)  # bytes of an entry of the vocabulary: the logits of the next token, in fp32, sorted and summed
_LOGITS = 2  # how often logits that are kept lie there as those of a further batch are added (``nested_concat``)
_ASIDE = 500 * 2**20  # bytes that the workspace of DeepSpeed's kernels leaves free (inference_context.h)
_ACTIVATIONS_OF_KERNELS = 10  # times the heads with their padding, for each token


class Computed(NamedTuple):
    """What the passes of a run hold on one GPU: what they compute with, and the keys and values that they keep."""

    activations: Band
    cache: Band | None
    kept: Band  # logits that the Trainer keeps
    is_complete: bool  # nothing that counts is left out


def without_training(setup: TrainingSetup) -> TrainingSetup:
    """The setup of the engine: nothing is trained, and the ranks of ``tp_size`` have a part of the layers each."""
    work = setup.untrained
    tensors = tuple(tensor._replace(is_trained=False) for tensor in setup.tensors)
    changed = setup._replace(tensors=tensors, optimizer_offload=None, optimizer="", reduce_bucket=0)
    if work is None or not work.is_served:
        return changed
    ranks = work.tensor_ranks or 1
    return changed._replace(
        tensors=tuple(_divided(tensor, ranks) for tensor in tensors),
        stage=0,
        ranks=ranks,
        nodes=min(setup.nodes, ranks),
        parameter_offload=None,
        dtype=work.dtype if work.dtype in ("bf16", "fp16", "fp32") else "fp16",
    )


def _divided(tensor: Tensor, ranks: int) -> Tensor:
    """A parameter of a rank of ``init_inference``: matrices of layers, and the head, are divided."""
    is_matrix = tensor.name.endswith("weight") and tensor.size > _LARGEST_VECTOR
    is_embedding = any(word in tensor.name for word in ("embed", "wte", "wpe"))
    if ranks == 1 or not is_matrix or is_embedding:
        return tensor
    return tensor._replace(size=-(-tensor.size // ranks))


_LARGEST_VECTOR = 2**17  # elements: a norm or a bias has fewer, a matrix of a real model more


def computed(setup: TrainingSetup, work: Untrained) -> Computed | None:
    """What the passes hold; None if the sizes of the batch or of the model are not known."""
    if work.samples is None or work.prompt is None:
        return None
    if work.work == "evaluation":
        return _evaluated(setup, work, work.samples, work.prompt)
    return _generated(setup, work, work.samples * work.sequences, work.prompt)


def _evaluated(setup: TrainingSetup, work: Untrained, samples: int, length: int) -> Computed | None:
    passed = ForwardPass("evaluation", samples * setup.sequences, length, setup.dtype, setup.attention, setup.has_logits)
    held = forward.activations(setup.architecture, passed)
    if held is None:
        return None
    logits = _logits(setup, samples * setup.sequences, length)
    kept = NOTHING
    if logits is not None and work.keeps_logits is not False:
        batches = work.kept_batches if work.kept_batches is not None else 1
        gathered = logits * (setup.ranks + 1)  # those of this rank, and of all
        most = gathered + _LOGITS * batches * logits * setup.ranks
        kept = exactly(most) if work.keeps_logits and work.kept_batches is not None else Band(0, gathered, most)
        kept = kept._replace(least=0)
    return Computed(
        held if setup.keeps_all_activations else held._replace(least=0),
        None,
        kept,
        work.keeps_logits is False or work.kept_batches is not None,
    )


def _logits(setup: TrainingSetup, sequences: int, length: int) -> float | None:
    """The bytes of the logits of a batch."""
    known = sizes(text_part(setup.architecture), {})
    return sequences * length * known["vocabulary"] * setup.width if known is not None and setup.has_logits else None


def logits_of_a_sample(setup: TrainingSetup, work: Untrained) -> float | None:
    """The bytes of the logits of one sample, which every rank gets; None if they are not known."""
    return _logits(setup, setup.sequences, work.prompt) if work.prompt is not None else None


def _generated(setup: TrainingSetup, work: Untrained, sequences: int, prompt: int) -> Computed | None:
    """A prompt, and the last of the new tokens: between them nothing is larger."""
    architecture, ranks = setup.architecture, work.tensor_ranks or 1
    last = prompt + (work.new_tokens or 0)
    kept = forward.cache(architecture, sequences, last, setup.dtype)
    filled = forward.cache(architecture, sequences, prompt, setup.dtype)
    whole = forward.cache(architecture | {"sliding_window": None}, sequences, last, setup.dtype)
    at_prompt = _pass(setup, "prompt", sequences, prompt)
    at_end = _pass(setup, "token", sequences, last)
    if kept is None or filled is None or whole is None or at_prompt is None:
        return None
    scores = _SCORES.times(sequences * _vocabulary(setup))
    # A layer with a window keeps the whole prompt until the next token: its cache is a view (cache_utils.py).
    full_prompt = forward.cache(architecture | {"sliding_window": None}, sequences, prompt, setup.dtype) or filled
    begun = at_prompt.plus(scores)
    behind = Band(0, 0, 0) if at_end is None else _less(at_end, whole)
    ended = kept.plus(behind).plus(scores)
    cache = kept.at_least(full_prompt)
    most = begun.at_least(ended)
    if work.workspace is not None:  # the kernels of DeepSpeed have the cache in one block, allocated at the first pass
        cache = exactly(_workspace(setup, sequences, work.workspace, ranks))
        most = cache.plus(Band(0, _less(begun, full_prompt).likely, _less(begun, full_prompt).most))
    elif ranks > 1:
        most = Band(most.least / ranks, (most.likely - cache.likely) + cache.likely / ranks, most.most)
        cache = cache.times(1 / ranks)
    live = _less(most, cache)
    is_complete = work.new_tokens is not None
    if not setup.keeps_all_activations:
        cache = cache._replace(least=0 if work.workspace is None else cache.least)
        live = live._replace(least=0)
    return Computed(live, cache, NOTHING, is_complete)


def _less(one: Band, other: Band) -> Band:
    return Band(*(max(0.0, mine - theirs) for mine, theirs in zip(one, other, strict=True)))


def _pass(setup: TrainingSetup, kind: forward.PassKind, sequences: int, tokens: int) -> Band | None:
    return forward.activations(
        setup.architecture, ForwardPass(kind, sequences, tokens, setup.dtype, setup.attention, setup.has_logits)
    )


def _vocabulary(setup: TrainingSetup) -> int:
    known = sizes(text_part(setup.architecture), {})
    return known["vocabulary"] if known is not None else 0


def _workspace(setup: TrainingSetup, sequences: int, tokens: int, ranks: int) -> float:
    """What ``GenWorkSpace`` allocates (``csrc/transformer/inference/includes/inference_context.h``)."""
    known = sizes(text_part(setup.architecture), {})
    if known is None:
        return 0
    heads, head = known["heads"], known["hidden"] // known["heads"]
    padded = next((size for size in (32, 64, 128) if head <= size), head)
    activations = _ACTIVATIONS_OF_KERNELS * heads * padded * sequences
    scores = sequences * (heads // ranks) * tokens
    cache = known["layers"] * sequences * (heads * padded // ranks) * 2
    return float((activations + scores + cache) * tokens * setup.width)


def parts_of(found: Computed) -> dict[str, Placed]:
    """What the passes hold, by kind."""
    parts = {"activations": Placed(gpu=Amount(bytes=found.activations))}
    if found.cache is not None:
        parts["key_value_cache"] = Placed(gpu=Amount(bytes=found.cache))
    if found.kept.most:
        parts["kept_logits"] = Placed(gpu=Amount(bytes=found.kept))
    return parts


def total_of(parts: dict[str, Placed]) -> Band:
    """The bytes of one GPU of all parts."""
    return total([one.gpu.bytes for one in parts.values()])


def whole_model(setup: TrainingSetup) -> Amount:
    """The parameters, gathered as a whole."""
    return amount(setup.parameter_count, setup.width)

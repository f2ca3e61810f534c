"""What a run takes that trains nothing, and what an evaluation takes beside a training.

Stage 3 without an optimizer has partitions, or what is offloaded of them, and gathers layer by layer in the forward
pass (``DeepSpeedZeRoOffload`` in ``deepspeed/runtime/zero/parameter_offload.py``): no gradients, no master weights, no
buckets. ``init_inference`` holds the whole model, the linear layers of its blocks divided among the ranks of
``tp_size`` (``deepspeed/module_inject/auto_tp.py``).
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint import forward
from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.forward import ForwardPass
from ds_lint.footprint.placed import Amount, Placed
from ds_lint.footprint.quantities import sizes, text_part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.footprint.untrained import Untrained

_SCORES = Band(
    2, 10, 30
)  # bytes of an entry of the vocabulary: the logits of the next token, in fp32, sorted and summed
_LOGITS = 2  # how often logits that are kept lie there as those of a further batch are added (``nested_concat``)
_LARGEST_VECTOR = 2**17  # elements: a norm or a bias has fewer, a matrix of a real model more
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
    if work is not None and work.has_optimizer:
        return setup
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


def computed(setup: TrainingSetup, work: Untrained) -> Computed | None:
    """What the passes hold; None if the sizes of the batch or of the model are not known."""
    if work.samples is None or work.prompt is None:
        return None
    if work.work == "evaluation":
        return _evaluated(setup, work, work.samples, work.prompt)
    return _generated(setup, work, work.samples * work.sequences, work.prompt)


def _evaluated(setup: TrainingSetup, work: Untrained, samples: int, length: int) -> Computed | None:
    passed = ForwardPass(
        "evaluation", samples * setup.sequences, length, setup.dtype, setup.attention, setup.has_logits
    )
    held = forward.activations(setup.architecture, passed)
    if held is None:
        return None
    return Computed(
        held._replace(least=0),  # there may be fewer samples than fill a batch
        None,
        _kept(setup, work, _logits(setup, samples * setup.sequences, length)),
        is_complete=work.keeps_logits is not True or work.kept_batches is not None,
    )


def _kept(setup: TrainingSetup, work: Untrained, logits: float | None) -> Band:
    """The logits that the Trainer gathers from all ranks and keeps on each until they go to the host.

    Without ``eval_accumulation_steps`` that is at the end, and how many samples there are is not known: those of one
    batch are counted.
    """
    if logits is None or not work.keeps_logits:
        return NOTHING
    gathered = logits * (setup.world + 1)  # those of this rank, and of all
    batches = work.kept_batches or 1
    return Band(0, gathered + (batches - 1) * logits * setup.world, gathered + _LOGITS * batches * logits * setup.world)


def _logits(setup: TrainingSetup, sequences: int, length: int) -> float | None:
    """The bytes of the logits of a batch."""
    known = sizes(text_part(setup.architecture), {})
    return sequences * length * known["vocabulary"] * setup.width if known is not None and setup.has_logits else None


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
    if not setup.is_length_known:
        cache = cache._replace(least=0 if work.workspace is None else cache.least)
        live = live._replace(least=0)
    return Computed(live, cache, NOTHING, is_complete=is_complete)


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


def left_out(setup: TrainingSetup, work: Untrained) -> Iterator[str]:
    """What of the passes is not counted, with the options by which it would be."""
    found = computed(setup, work)
    options = [
        option
        for option, value in (("--micro-batch", work.samples), ("--sequence-length", work.prompt))
        if value is None
    ]
    if found is None:
        yield f"the {work.work}" + (f" (set {' and '.join(options)})" if options else " (not known for this model)")
    elif work.work == "generation" and not found.is_complete:
        yield "the tokens that are generated (set --new-tokens)"
    elif not found.is_complete and (sample := _logits(setup, setup.sequences, work.prompt or 0)) is not None:
        yield (
            f"the logits of all evaluated samples, which the Trainer keeps for compute_metrics: {_mib(sample)} each "
            "(set eval_accumulation_steps)"
        )
    if work.dtype == "int8":
        yield "what int8 saves (the weights count as fp16)"


def _mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def parts_of(found: Computed) -> dict[str, Placed]:
    """What the passes hold, by kind."""
    parts = {"activations": Placed(gpu=Amount(bytes=found.activations))}
    if found.cache is not None:
        parts["key_value_cache"] = Placed(gpu=Amount(bytes=found.cache))
    if found.kept.most:
        parts["kept_logits"] = Placed(gpu=Amount(bytes=found.kept))
    return parts

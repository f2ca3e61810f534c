"""The most bytes at once, on one GPU and on one node, while a run initializes, steps and saves.

What each phase takes beside the model states was measured with the real engine of DeepSpeed 0.19.8 on simulated
groups, every storage counted from its creation to its end (``tests/fidelity/test_memory_peaks.py``). In these comments
N is all trained elements and n the partition of one rank. One rank was measured on a GPU, too (``docs/gpu.md``).
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint import host_peaks, quantized
from ds_lint.footprint.allowance import allowance
from ds_lint.footprint.band import NOTHING, Band, exactly, total
from ds_lint.footprint.parameters import parameters
from ds_lint.footprint.partition import largest_trained, share, sub_groups, touched
from ds_lint.footprint.placed import FULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.placed import Placed
    from ds_lint.footprint.setup import TrainingSetup

    Parts = dict[str, Placed]
    Moment = dict[str, Band]  # what one GPU holds, by kind

_STATES = ("parameters", "master_weights", "optimizer_states")
_OTHERS = ("reference_model", "other_models")
_REDUCED_AT_ONCE = 500_000_000  # elements, of ``allreduce_no_retain`` in deepspeed/runtime/engine.py
# torch's Adam without ``fused`` computes with lists of tensors ("foreach") of the size of what it updates.
_COMPUTES_WITH_LISTS = ("adamw_torch", "adam_torch")


class Peak(NamedTuple):
    """The most bytes at once in a phase of the run.

    ``tensors`` and ``allowance`` lie on one GPU, ``host`` in one node. ``held`` is what the GPU likely holds at
    that moment, by kind.
    """

    tensors: Band
    allowance: Band
    host: Band
    held: Moment

    @property
    def gpu(self) -> Band:
        """The bytes of one GPU."""
        return self.tensors.plus(self.allowance)

    def least_times(self, factor: float) -> Peak:
        """The same where the least of tensors and of the host is so much of it."""
        tensors, node = (band._replace(least=band.least * factor) for band in (self.tensors, self.host))
        return self._replace(tensors=tensors, host=node)


def peaks(setup: TrainingSetup, parts: Parts, in_layers: Band) -> dict[str, Peak]:
    """The peaks of a run with these parts; ``live`` and ``activations`` are parts if they are known.

    ``in_layers`` are the activations that are left when the first gradient is there.
    """
    frozen = _kinds(parts, *_OTHERS)
    found = {
        "initialization": (
            [*_initializes(setup, parts), *quantized.loads(setup)],
            host_peaks.initializes(setup, parts),
        ),
        "step": (_steps(setup, parts, in_layers), host_peaks.steps(setup, parts)),
        "saving": ([_saves(setup, parts)], host_peaks.saves(setup, parts)),
    }
    return {
        phase: peak(setup, [moment | frozen for moment in moments], on_host)
        for phase, (moments, on_host) in found.items()
    }


def beside(setup: TrainingSetup, parts: Parts, resting: Peak, passes: Parts) -> Peak:
    """The peak of passes without autograd, beside what lies there between two steps."""
    held = _kinds(parts, *_STATES, *_OTHERS, "live") | _to_the_host(setup) | _kinds(passes, *passes)
    if setup.stage == 3:
        held = _together(held, _kinds(parts, "gradients", "buckets"))
    return peak(setup, [held], resting.host)


def peak(setup: TrainingSetup, moments: list[Moment], node: Band) -> Peak:
    """The peak of a phase with these moments."""
    sums = [total(list(moment.values())) for moment in moments]
    highest = sums[0]
    for one in sums:
        highest = highest.at_least(one)
    likely = max(zip(sums, moments, strict=True), key=lambda pair: pair[0].likely)[1]
    more = allowance(highest, setup.world)
    return Peak(highest, more, node, likely | {"allowance": more})


def _kinds(parts: Parts, *names: str) -> Moment:
    """What one GPU holds of these kinds."""
    return {name: parts[name].gpu.bytes for name in names if name in parts}


def _gpu(parts: Parts, *names: str) -> Band:
    found = NOTHING
    for name in names:
        if name in parts:
            found = found.plus(parts[name].gpu.bytes)
    return found


def _whole_gradients(setup: TrainingSetup) -> Band:
    return exactly(setup.trained_count * setup.width)


def _partition(setup: TrainingSetup, width: int) -> Band:
    return exactly(share(setup) * width)


def _gradients_of(setup: TrainingSetup) -> Band:
    """At stages 1 and 2: the gradients of a rank's share, those on its borders whole; with offload on the host."""
    return NOTHING if setup.optimizer_offload is not None else exactly(touched(setup) * setup.width)


def _bucket(setup: TrainingSetup) -> Band:
    """A bucket of gradients, which is allocated in full."""
    return exactly(setup.reduce_bucket * setup.width)


def _filled_bucket(setup: TrainingSetup) -> Band:
    """What a bucket holds at the most, as it is flattened to be reduced."""
    return exactly(min(setup.reduce_bucket, setup.trained_count) * setup.width)


def _largest(setup: TrainingSetup) -> Band:
    return exactly(quantized.largest(setup))


# ----------------------------------------------------------------------------------------------------------------- GPU


def _initializes(setup: TrainingSetup, parts: Parts) -> list[Moment]:
    """``deepspeed.initialize``: stages 1 to 3 have no optimizer states before the first step."""
    weights = _kinds(parts, "parameters", "master_weights")
    if setup.stage == 0:
        if setup.dtype == "fp32":
            return [weights]
        # The wrapper makes the states with gradients of zeros in fp32.
        return [_kinds(parts, *_STATES) | {"gradients": exactly(setup.trained_count * FULL)}]
    if setup.stage < 3:
        # The share of this rank is copied to make the master weights. Before that, all parameters are copied into one
        # buffer: on the GPU only if that much is free.
        is_copied = setup.optimizer_offload is None or setup.copies_offloaded_share
        share_once_more = _partition(setup, setup.width) if is_copied else NOTHING
        flat = _whole_gradients(setup).plus(share_once_more) if setup.flattens_on_gpu else share_once_more
        copied = {"buckets": share_once_more._replace(most=flat.most)}
        # Gradients of zeros, like the master weights, and freed (``initialize_optimizer_states``).
        zeros = {"gradients": parts["master_weights"].gpu.bytes}
        return [weights | zeros | _to_the_host(setup), _kinds(parts, "parameters") | copied]
    sharded = parameters(setup._replace(persistence_threshold=0, hpz=1))  # none is gathered yet
    weights["parameters"] = sharded.gpu.bytes
    updated = max((group.size for group in sub_groups(setup)), default=0) if setup.optimizer_offload is None else 0
    zeros = {"gradients": exactly(updated * FULL)}  # which are freed before the buffers are made
    buffers = _plus(_kinds(parts, "gradients", "buckets"), "live", _gathered_alone(setup))
    partitioned = [weights | held for held in (zeros, buffers)]
    return partitioned if setup.uses_zero_init else [*partitioned, {"parameters": _whole_model(setup)}]


def _to_the_host(setup: TrainingSetup) -> Moment:
    """At stages 1 and 2: the buffer of the largest gradient on its way to the host, from the start on."""
    if setup.stage not in (1, 2) or setup.optimizer_offload is None:
        return {}
    return {"buckets": exactly(largest_trained(setup) * setup.width)}


def _gathered_alone(setup: TrainingSetup) -> Band:
    """At stage 3, the largest parameter, and the shard of it that comes from the host; one rank may have it whole."""
    if setup.parameter_offload is None:
        return _largest(setup) if setup.shards > 1 else _largest(setup)._replace(least=0)
    return exactly(
        max(
            ((one.size + -(-one.size // setup.ranks)) * quantized.width(setup, one) for one in setup.tensors),
            default=0,
        )
    )


def _whole_model(setup: TrainingSetup) -> Band:
    """At stage 3 without ``zero.Init``: ``deepspeed.initialize`` moves all parameters, and then partitions each."""
    whole = quantized.whole(setup).bytes
    return Band(0, 0, whole.most) if setup.uses_zero_init is None else whole


def _steps(setup: TrainingSetup, parts: Parts, in_layers: Band) -> list[Moment]:
    """From the forward pass to the update."""
    held = _kinds(parts, *_STATES) | _to_the_host(setup)
    if setup.stage == 3:
        held |= _kinds(parts, "gradients", "buckets")
    if setup.weights is not None:
        held |= quantized.computes(_gpu(parts, "unpacked"), _gpu(parts, "activations"), in_layers)
    return [
        *(_together(held, moment) for moment in _passes(setup, parts, in_layers)),
        _plus(held, "gradients", _updates(setup)),
    ]


def _passes(setup: TrainingSetup, parts: Parts, in_layers: Band) -> list[Moment]:
    """The forward and backward pass, beside the states: activations become fewer as gradients become more."""
    activations = _gpu(parts, "activations")
    bucket, filled, largest = _bucket(setup), _filled_bucket(setup), _largest(setup)
    # Flattened to be reduced, at stage 3 by one rank too (``reduce_scatter_coalesced``); one tensor is flat.
    copied = 0 if setup.ranks == 1 and setup.stage < 3 else filled.likely
    if setup.stage == 3:
        # The bucket is full for the first time when nothing is left of the logits, and of the layers that filled it;
        # with checkpointing, the layer that comes next is computed again.
        live, sent = _gpu(parts, "live"), Band(0, copied, 2 * (filled.most + largest.most))
        layers = 1 - filled.likely / max(_whole_gradients(setup).likely, 1)
        left = Band(0, in_layers.likely * (1 if setup.is_checkpointed else layers), in_layers.most)
        return [{"live": live, "activations": activations}, {"live": live, "activations": left, "buckets": sent}]
    if setup.stage == 2 or (setup.stage == 1 and setup.overlaps_communication):
        mine = _gradients_of(setup)
        kept = mine if setup.accumulation_steps > 1 else NOTHING  # of the micro batches before
        second = bucket.most if setup.overlaps_communication else 0
        # The bucket is made for the first gradient (``process_gradients``), when nothing is left of the logits.
        sent = Band(0, max(copied, largest.likely), second + filled.most + largest.most)
        begun, ended = sent.plus(bucket), Band(0, copied, sent.most).plus(bucket)
        left = Band(in_layers.least, in_layers.likely, activations.most)
        return [
            {"activations": activations, "gradients": kept},
            {"activations": left, "gradients": kept.plus(Band(0, 0, mine.most)), "buckets": begun},
            {"gradients": kept.plus(mine), "buckets": ended},
        ]
    whole = _whole_gradients(setup)
    reduced = exactly(min(_REDUCED_AT_ONCE, setup.trained_count) * setup.width)
    if setup.stage == 1:
        mine = _gradients_of(setup)
        mine = mine._replace(least=min(mine.least, share(setup) * setup.width))  # others are given back meanwhile
        reduced = mine.at_least(filled).plus(Band(0, 0, bucket.most + largest.most))
    last = {"gradients": whole, "buckets": reduced}
    if setup.accumulation_steps > 1:
        held = {"gradients": whole, "buckets": bucket} if setup.stage == 1 else {"gradients": whole}
        return [held | {"activations": activations}, last]
    both = {"activations": Band(0, 0, activations.most), "gradients": Band(0, 0, whole.most)}
    return [{"activations": activations}, last, both]


def _updates(setup: TrainingSetup) -> Band:
    """The step of the optimizer, beside the states: gradients in fp32, and what they are made of."""
    if setup.optimizer_offload is not None and setup.optimizer_offload.ratio == 1:
        return NOTHING
    is_full = setup.dtype == "fp32"
    if setup.stage == 0:  # 4N each and flat, beside the 16-bit ones
        return _whole_gradients(setup).plus(exactly(0 if is_full else 2 * FULL * setup.trained_count))
    if setup.stage < 3:  # gradients, flat, in fp32
        made = _partition(setup, setup.width).times(2).plus(NOTHING if is_full else _partition(setup, FULL))
    else:  # one sub-group after the other; the gradients have a buffer of their own
        updated = max((group.size for group in sub_groups(setup)), default=0)
        made = exactly(updated * (FULL if is_full else setup.width + FULL))
    if setup.optimizer in _COMPUTES_WITH_LISTS:
        lists = _partition(setup, FULL)
        made = made.plus(Band(0, lists.likely, 2 * lists.most))
    return made


def _saves(setup: TrainingSetup, parts: Parts) -> Moment:
    """A save between two steps; at stage 3 the parameters of one module after the other are gathered."""
    held = _kinds(parts, *_STATES) | _to_the_host(setup)
    if setup.stage < 3:
        return held
    gathered = _gathered_alone(setup) if setup.gathers_on_save else NOTHING
    return _plus(held | _kinds(parts, "gradients", "buckets"), "live", gathered)


def _together(one: Moment, other: Moment) -> Moment:
    """What is held together, kind by kind."""
    return {name: one.get(name, NOTHING).plus(other.get(name, NOTHING)) for name in one | other}


def _plus(held: Moment, name: str, more: Band) -> Moment:
    """What is held with more of one kind."""
    return _together(held, {name: more})

"""The most bytes at once, on one GPU and on one node, while a run initializes, steps and saves.

What each phase takes beside the model states was measured with the real engine of DeepSpeed 0.19.8 on simulated
groups, every storage counted from its creation to its end (``tests/fidelity/test_memory_peaks.py``). In these comments
N is all trained elements and n the partition of one rank.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory import host
from ds_lint.memory.band import NOTHING, Band, exactly
from ds_lint.memory.partition import share, sub_groups, touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.memory.placed import Placed
    from ds_lint.memory.setup import TrainingSetup

    Parts = dict[str, Placed]

_FULL = 4  # bytes of an element in fp32
_REDUCED_AT_ONCE = 500_000_000  # elements, of ``allreduce_no_retain`` in deepspeed/runtime/engine.py
# torch's Adam without ``fused`` computes with lists of tensors ("foreach") of the size of what it updates.
_COMPUTES_WITH_LISTS = ("adamw_torch", "adam_torch")


class Peak(NamedTuple):
    """The most bytes at once in a phase of the run: of one GPU, and of one node's host memory."""

    gpu: Band = NOTHING
    host: Band = NOTHING


def peaks(setup: TrainingSetup, parts: Parts) -> dict[str, Peak]:
    """The peaks of a run with these parts; ``live``, ``activations`` and ``allowance`` are parts if they are known."""
    allowance = _gpu(parts, "allowance")
    node = _node(setup, parts)
    return {
        "initialization": Peak(_initializes(setup, parts).plus(allowance), _loads(setup, parts)),
        "step": Peak(_steps(setup, parts).plus(allowance), node),
        "saving": Peak(_saves(setup, parts).plus(allowance), node.plus(_gathered(setup))),
    }


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
    return exactly(setup.largest * setup.width)


# ----------------------------------------------------------------------------------------------------------------- GPU


def _initializes(setup: TrainingSetup, parts: Parts) -> Band:
    """``deepspeed.initialize``: stages 1 to 3 have no optimizer states before the first step."""
    weights = _gpu(parts, "parameters", "master_weights")
    if setup.stage == 0:
        is_wrapped = setup.dtype != "fp32"  # the wrapper makes the states with gradients of zeros in fp32
        states = _gpu(parts, "optimizer_states").plus(exactly(setup.trained_count * _FULL)) if is_wrapped else NOTHING
        return weights.plus(states)
    if setup.stage < 3:
        # The parameters are copied into one buffer: on the GPU only if that much is free.
        copied = _gpu(parts, "parameters").plus(Band(0, 0, _whole_gradients(setup).most))
        return weights.at_least(copied if setup.flattens_on_gpu else weights)
    gradients = (
        max((group.size for group in sub_groups(setup)), default=0) * _FULL if setup.optimizer_offload is None else 0
    )
    return weights.plus(_gpu(parts, "gradients", "buckets")).plus(exactly(gradients)).plus(_largest(setup))


def _steps(setup: TrainingSetup, parts: Parts) -> Band:
    """From the forward pass to the update."""
    states = _gpu(parts, "parameters", "master_weights", "optimizer_states")
    if setup.stage == 3:
        states = states.plus(_gpu(parts, "gradients", "buckets"))
    return states.plus(_computes(setup, parts).at_least(_updates(setup)))


def _computes(setup: TrainingSetup, parts: Parts) -> Band:
    """The forward and backward pass, beside the states: activations become fewer as gradients become more."""
    activations = _gpu(parts, "activations")
    bucket, filled, largest = _bucket(setup), _filled_bucket(setup), _largest(setup)
    if setup.stage == 3:
        live = _gpu(parts, "live")
        sent = Band(0, filled.likely, 2 * (filled.most + largest.most))  # flattened to be reduced
        return live.plus(activations).plus(sent)
    if setup.stage == 2 or (setup.stage == 1 and setup.overlaps_communication):
        mine = _gradients_of(setup)
        kept = mine if setup.accumulation_steps > 1 else NOTHING  # of the micro batches before
        most = mine.plus(bucket).plus(filled).plus(largest)
        if setup.overlaps_communication:
            most = most.plus(bucket)
        begins = activations.plus(kept).plus(Band(bucket.least, bucket.least + filled.least, most.most))
        ends = kept.plus(mine).plus(bucket).plus(Band(0, filled.likely, most.most - mine.most - bucket.most))
        return begins.at_least(ends)
    whole = _whole_gradients(setup)
    reduced = exactly(min(_REDUCED_AT_ONCE, setup.trained_count) * setup.width)
    if setup.stage == 1:
        mine = _gradients_of(setup)
        reduced = mine.at_least(filled).plus(Band(0, 0, bucket.most + largest.most))
    if setup.accumulation_steps > 1:
        held = whole.plus(bucket) if setup.stage == 1 else whole
        return held.plus(activations).at_least(whole.plus(reduced))
    passes = Band(0, 0, activations.most + whole.most)
    return passes.at_least(activations).at_least(whole.plus(reduced))


def _updates(setup: TrainingSetup) -> Band:
    """The step of the optimizer, beside the states: gradients in fp32, and what they are made of."""
    if setup.optimizer_offload is not None and setup.optimizer_offload.ratio == 1:
        return NOTHING
    is_full = setup.dtype == "fp32"
    if setup.stage == 0:  # 4N each and flat, beside the 16-bit ones
        return _whole_gradients(setup).plus(exactly(0 if is_full else 2 * _FULL * setup.trained_count))
    if setup.stage < 3:  # gradients, flat, in fp32
        made = _partition(setup, setup.width).times(2).plus(NOTHING if is_full else _partition(setup, _FULL))
    else:  # one sub-group after the other; the gradients have a buffer of their own
        largest = max((group.size for group in sub_groups(setup)), default=0)
        made = exactly(largest * (_FULL if is_full else setup.width + _FULL))
    if setup.optimizer in _COMPUTES_WITH_LISTS:
        updated = _partition(setup, _FULL)
        made = made.plus(Band(0, updated.likely, 2 * updated.most))
    return made


def _saves(setup: TrainingSetup, parts: Parts) -> Band:
    """A save between two steps; at stage 3 the parameters of one module after the other are gathered."""
    held = _gpu(parts, "parameters", "master_weights", "optimizer_states")
    if setup.stage < 3:
        return held
    gathered = _largest(setup) if setup.gathers_on_save else NOTHING
    return held.plus(_gpu(parts, "gradients", "buckets")).plus(gathered)


# ---------------------------------------------------------------------------------------------------------------- host


def _node(setup: TrainingSetup, parts: Parts) -> Band:
    """What the ranks of one node hold in host memory between the steps."""
    found = NOTHING
    for placed in parts.values():
        found = found.plus(placed.host.bytes)
    return found.times(setup.ranks_per_node)


def _loads(setup: TrainingSetup, parts: Parts) -> Band:
    """From the start to the first step: each rank loads the model, and stages 1 and 2 may copy it there."""
    processes = host.PROCESS
    all_elements = sum(tensor.size for tensor in setup.tensors)
    saved = setup.checkpoint_width
    widths = Band(min(saved or 2, setup.width), saved or setup.width, _FULL)  # as the script loads it
    loaded = widths.times(all_elements)
    if setup.stage == 3 and setup.uses_zero_init:
        loaded = Band(0, 0, loaded.most)  # a shard of the checkpoint at a time
    elif setup.stage == 3:
        loaded = Band(0, loaded.likely, loaded.most)
    if setup.stage in (1, 2):
        copied = 2 * all_elements * setup.width  # the parameters, and their flat copy
        loaded = loaded.at_least(Band(0, 0, copied) if setup.flattens_on_gpu else exactly(copied))
    lasting = _node(setup, {name: part for name, part in parts.items() if name != "optimizer_states"})
    return processes.plus(loaded).times(setup.ranks_per_node).at_least(lasting)


def _gathered(setup: TrainingSetup) -> Band:
    """What a save of the whole model takes on the node of rank 0, and optimizer states as they are written."""
    whole = sum(tensor.size for tensor in setup.tensors) * setup.width
    written = setup.ranks_per_node * share(setup) * _FULL  # a tensor on the GPU is copied to be written
    is_on_gpu = setup.optimizer_offload is None
    found = Band(0, 0, written) if is_on_gpu else NOTHING
    if setup.stage == 3 and setup.gathers_on_save:
        return found.plus(Band(whole, whole, 2 * whole))
    return found.plus(Band(0, 0, whole))

"""The buffers on the GPU through which a rank communicates gradients, and copies them to the host.

Stage 3 makes its reduce bucket in ``deepspeed.initialize``, however small the model is (``_setup_for_real_optimizer``).
Stages 1 and 2 make theirs in each backward pass (``setup_buckets``), and gather weights in place, so
``allgather_bucket_size`` takes nothing.
"""

from __future__ import annotations

from ds_lint.footprint.band import Band
from ds_lint.footprint.partition import largest_trained, of_muon, share
from ds_lint.footprint.placed import FULL, Amount, Placed, amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup

_OF_ONE_GATHER = 2**26  # bytes (_muon_allgather_max_buffer_bytes)
_OF_MUON = 2**28  # bytes of gathered updates that are kept (_muon_allgather_max_cached_bytes)
_AT_ONCE = 500_000_000  # elements that are reduced together without ZeRO (MEMORY_OPT_ALLREDUCE_SIZE in engine.py)


def buckets(setup: TrainingSetup) -> Placed:
    """What one rank holds of them in a backward pass."""
    if setup.stage == 0 or setup.uses_bf16_optimizer:
        return Placed(gpu=_reduced_at_once(setup))
    if setup.stage == 3:
        return Placed(gpu=_at_stage_3(setup))
    return Placed(gpu=_of_a_backward_pass(setup).plus(_of_offload(setup)))


def _reduced_at_once(setup: TrainingSetup) -> Amount:
    """Without buckets, gradients are copied one after the other until they are enough (``allreduce_no_retain``)."""
    if setup.ranks == 1:
        return Amount()
    largest = held = 0
    are_of_experts = False
    # Those of experts that ranks share are reduced behind all others (``_reduce_expert_gradients``).
    for tensor in sorted(setup.tensors, key=setup.sharing) if setup.part.degrees.experts > 1 else setup.tensors:
        if setup.sharing(tensor) > 1 and not are_of_experts:
            held, are_of_experts = 0, True
        held += tensor.size if tensor.is_trained else 0
        largest = max(largest, held)
        held = 0 if held > _AT_ONCE else held
    return amount(largest, setup.width)


def _at_stage_3(setup: TrainingSetup) -> Amount:
    held = Amount()
    if setup.contiguous_gradients:
        held = amount(setup.reduce_bucket, setup.communication_width or setup.width)
    if setup.optimizer == "muon":
        most = min(setup.trained_count * 3, _OF_MUON // setup.width)
        held = held.plus(amount(Band(0, most, most), setup.width))
    return held


def _of_a_backward_pass(setup: TrainingSetup) -> Amount:
    """One, or two if communication overlaps; at stage 1 in the dtype in which gradients are added up."""
    if not (setup.contiguous_gradients or setup.optimizer_offload is not None):
        return Amount()
    width = setup.accumulation_width if setup.stage == 1 and setup.accumulation_width else setup.width
    return amount((1 + setup.overlaps_communication) * setup.reduce_bucket, width)


def _of_offload(setup: TrainingSetup) -> Amount:
    """At stages 1 and 2: the largest gradient, on its way to the host (``temp_grad_buffer_for_gpu_offload``)."""
    if setup.optimizer_offload is None:
        return Amount()
    held = amount(largest_trained(setup), setup.width)
    return held.plus(_gathered_for_muon(setup)) if setup.optimizer == "muon" else held


def _gathered_for_muon(setup: TrainingSetup) -> Amount:
    """The buffers through which Muon gathers whole gradients, then momentum with them; they are kept from then on."""
    if setup.ranks == 1:
        return Amount()
    once = min(share(of_muon(setup)), _OF_ONE_GATHER // (FULL * (setup.ranks + 1))) * (setup.ranks + 1)
    most = _OF_MUON // FULL
    return amount(Band(min(once, most), min(3 * once, most), most), FULL)

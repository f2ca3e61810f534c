"""The gradients that one rank holds at the boundary of a step."""

from __future__ import annotations

from ds_lint.footprint.band import Band
from ds_lint.footprint.partition import (
    holds_most,
    keeps_those_of_others,
    of_muon,
    of_others,
    share,
    sub_groups,
    touched,
    width_of_muon,
)
from ds_lint.footprint.placed import FULL, Amount, Placed, amount
from ds_lint.footprint.swapping import SWAPPED, below_alignment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup


def gradients(setup: TrainingSetup) -> Placed:
    """What one rank holds between the last backward pass of a step and the step."""
    if setup.uses_bf16_optimizer:  # those of the parameters are added to a flat tensor, which is there all the time
        width = FULL if setup.part.stage is None else setup.width  # those of a pipeline are not added up in full
        both = amount(setup.trained_count, setup.width).plus(amount(share(setup) * setup.ranks, width))
        return Placed(gpu=both)
    if setup.stage == 0:
        return Placed(gpu=amount(setup.trained_count, setup.width))
    if setup.stage == 3:
        return _partitioned(setup)
    return _offloaded(setup) if setup.optimizer_offload is not None else _of_whole_parameters(setup)


def _of_whole_parameters(setup: TrainingSetup) -> Placed:
    """At stages 1 and 2 without offload: those of the parameters that the rank's share touches.

    What Muon makes of a gradient lies beside it; matrices are not added up in fp32 (``_is_muon_group``).
    """
    rank = holds_most(setup)
    matrices = of_muon(setup) if setup.optimizer == "muon" else setup._replace(tensors=())
    if _is_compact(setup):
        held = amount(share(setup) - share(matrices), FULL).plus(_of_others(setup))
        held = held.plus(amount(touched(matrices, rank=rank), width_of_muon(setup)))
    else:
        held = amount(touched(setup), setup.width)
    made = touched(matrices, pads=False, rank=rank)
    return Placed(gpu=held.plus(amount(Band(0, made, made), width_of_muon(setup))))


def _offloaded(setup: TrainingSetup) -> Placed:
    """At stages 1 and 2 with offload: those of the master weights on the host, and what is accumulated.

    Masters in 16 bit are accumulated in place (``accumulated_grads_in_cpu``).
    """
    held = Placed(host=_of_masters(setup))
    if setup.stage == 2 and _is_compact(setup):
        return held.plus(Placed(gpu=amount(share(setup), FULL)))
    if _is_compact(setup):
        return held.plus(Placed(gpu=_of_others(setup)))
    if setup.stage == 2 and setup.accumulation_steps > 1 and setup.master_width == FULL:
        return held.plus(Placed(host=amount(touched(setup, pads=False), setup.width)))
    return held


def _of_others(setup: TrainingSetup) -> Amount:
    """What was added up of parameters in the shares of others; only ``contiguous_gradients`` gives back its own."""
    if not keeps_those_of_others(setup):
        return Amount()
    gives_back = setup.contiguous_gradients or setup.optimizer_offload is not None
    return amount(of_others(setup) if gives_back else setup.trained_count, FULL)


def _partitioned(setup: TrainingSetup) -> Placed:
    """At stage 3: one buffer for the share of the rank, and with offload those of the master weights beside it."""
    mine = amount(share(setup), setup.width if setup.accumulation_width is None else setup.accumulation_width)
    offload = setup.optimizer_offload
    if offload is None:
        return Placed(gpu=mine)
    if offload.device == "nvme":
        return Placed(host=mine).plus(_swapped(setup))
    groups = sub_groups(setup)
    moved = amount(sum(group.size for group in groups if group.is_moved), setup.master_width)
    stays = amount(sum(group.size for group in groups if not group.is_moved), setup.master_width)
    return Placed(gpu=stays, host=mine.plus(moved))


def _swapped(setup: TrainingSetup) -> Placed:
    """Gradients in fp32 on NVMe; the small ones, and what does not fill a block, stay on the host.

    All of them are there before they are written, and some still at the boundary.
    """
    sizes = [size for group in sub_groups(setup) for size in group.sizes]
    written = sum(below_alignment(size, FULL) for size in sizes if size * FULL >= SWAPPED)
    rest = Band(sum(sizes) - written, sum(sizes), sum(sizes))
    return Placed(host=amount(rest, FULL), nvme=amount(written, FULL))


def _of_masters(setup: TrainingSetup) -> Amount:
    return amount(share(setup), setup.master_width)


def _is_compact(setup: TrainingSetup) -> bool:
    """Whether gradients are added up in fp32 (``_use_compact_grad_partition_buffer``)."""
    return setup.accumulation_width == FULL and setup.width < FULL

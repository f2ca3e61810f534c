"""The parameters that one rank holds: its partition, those that stay whole, and the second partition of hpZ."""

from __future__ import annotations

from itertools import compress

from ds_lint.footprint import quantized
from ds_lint.footprint.band import exactly
from ds_lint.footprint.partition import padded, part, partitions, parts, persistent, share, sub_groups
from ds_lint.footprint.placed import Amount, Placed, amount
from ds_lint.footprint.remembered import OF_A_BATCH, remembered
from ds_lint.footprint.swapping import SWAPPED, aligned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup


@remembered(*OF_A_BATCH)
def parameters(setup: TrainingSetup) -> Placed:
    """What one rank holds of the parameters between two steps."""
    if setup.stage < 3:
        held = amount(padded(setup) if setup.stage or setup.uses_bf16_optimizer else share(setup), setup.width)
        frozen = quantized.stored(setup, ((one, one.size) for one in setup.tensors if not one.is_trained))
        return Placed(gpu=held.plus(quantized.doubted(setup, frozen)).plus(quantized.beside(setup)))
    kept = Placed(gpu=_whole(setup).plus(quantized.beside(setup)))
    found = _partitions(setup).plus(kept).plus(_second_partitions(setup))
    return Placed(*(quantized.doubted(setup, one) for one in found))


def reference(setup: TrainingSetup) -> Placed:
    """What one rank holds of a frozen copy of the model; nothing at the least if it is not known that there is one.

    trl gives it an engine of its own, which partitions it at stage 3 as the trained one, and else keeps it whole
    (``prepare_deepspeed`` in ``trl/models/utils.py``).
    """
    base = setup._replace(tensors=tuple(tensor._replace(is_trained=False) for tensor in setup.tensors))
    held = parameters(base._replace(stage=3 if setup.stage == 3 else 0))
    return held if setup.reference else held.at_the_most()


def _partitions(setup: TrainingSetup) -> Placed:
    held = partitions(setup)
    stored = amount(held, setup.width)
    if setup.weights is not None:
        stored = quantized.stored(setup, zip(setup.tensors, parts(setup, setup.tensors), strict=True))
    if setup.parameter_offload is None:
        return Placed(gpu=stored)
    if setup.parameter_offload.device == "cpu":
        return Placed(host=stored)
    sizes = parts(setup, setup.tensors)
    written = [size for size in sizes if _is_swapped(setup, size)]
    stay = held - sum(size for size in _beyond_the_host(setup) if _is_swapped(setup, size))
    blocks = sum(aligned(size, setup.width) for size in written)
    return Placed(host=amount(stay, setup.width), nvme=Amount(exactly(sum(written)), exactly(blocks * setup.width)))


def _is_swapped(setup: TrainingSetup, size: int) -> bool:
    return size * setup.width >= SWAPPED


def _beyond_the_host(setup: TrainingSetup) -> list[int]:
    """The partitions of which the host keeps no copy.

    ``zero.Init`` writes all to NVMe; sub-groups of trained parameters are read again and stay until ``max_in_cpu`` is
    reached (``_create_fp16_partitions_with_defragmentation``).
    """
    room = setup.parameter_offload.kept if setup.parameter_offload is not None else 0
    sizes = parts(setup, (tensor for tensor in setup.tensors if not tensor.is_trained))
    for group in sub_groups(setup):
        if group.size <= room:
            room -= group.size
        else:
            sizes += group.sizes
    return sizes


def _whole(setup: TrainingSetup) -> Amount:
    """The parameters that each rank keeps whole after it has gathered them, with what pads them.

    One rank keeps no second copy, unless its partition lies on another device (``NoGatherHandle``): a run on a CPU has
    none, whatever is offloaded.
    """
    kept = list(compress(setup.tensors, persistent(setup)))
    if setup.shards > 1:
        sharded = ((one, setup.shards_of(one)) for one in kept)
        return quantized.stored(setup, ((one, ranks * part(one.size, ranks)) for one, ranks in sharded if ranks > 1))
    whole = quantized.stored(setup, ((one, one.size) for one in kept))
    return Placed(gpu=whole).at_the_most().gpu if setup.parameter_offload is not None else Amount()


def _second_partitions(setup: TrainingSetup) -> Placed:
    """The partitions that the ranks of an hpZ group share, which last from a forward pass to the step.

    Those of frozen parameters stay; a trained one that is persistent is never partitioned again
    (``_partition_param_sec``, ``invalidate_secondary_tensor``).
    """
    if setup.hpz <= 1:
        return Placed()
    held = quantized.stored(
        setup,
        (
            (tensor, part(tensor.size, setup.ranks) * setup.ranks // setup.hpz)
            for tensor, is_kept in zip(setup.tensors, persistent(setup), strict=True)
            if not tensor.is_trained or not is_kept
        ),
    )
    return Placed(gpu=held) if setup.parameter_offload is None else Placed(host=held)

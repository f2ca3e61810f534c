"""What a rank keeps of the parameters of a unit, to the element.

FSDP 1 writes the parameters one after the other into a flat tensor and cuts it into equal parts, of which the last is
padded; with ``use_orig_params`` each starts at a multiple of 16 bytes of the dtype that is computed in
(``_init_flat_param_and_metadata`` in ``torch/distributed/fsdp/_flat_param.py``). FSDP 2 cuts each parameter by rows, as
``torch.chunk`` does, and every rank stores as many rows as the first (``_init_sharded_param`` in
``torch/distributed/fsdp/_fully_shard/_fsdp_param.py``).
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.fsdp.sharding import FsdpSharding
    from ds_lint.footprint.fsdp.units import GatheredUnit

_ALIGNED = 16  # bytes


class KeptShare(NamedTuple):
    """What a rank keeps of a unit, in elements; with FSDP 2 the one that keeps most.

    ``trained`` and ``frozen`` are the tensors that keep parameters, with what pads them; ``stepped`` is what the
    optimizer updates, of each rank, or one number for all.
    """

    trained: int
    frozen: int
    stepped: tuple[int, ...]


class FlatUnit(NamedTuple):
    """A unit as FSDP 1 lays it out: the place of each parameter, and the elements with what pads them."""

    starts: tuple[int, ...]
    padded: int


def kept(unit: GatheredUnit, sharding: FsdpSharding, ranks: int, all_ranks: int, width: int) -> KeptShare:
    """The share of a unit among so many ranks; parameters are computed with in ``width`` bytes."""
    if sharding.version == 2:
        stored = [_rows(one, ranks) for one in unit.tensors]
        trained = sum(size for size, one in zip(stored, unit.tensors, strict=True) if one.is_trained)
        return KeptShare(trained, sum(stored) - trained, (trained,))
    flat = laid_out(unit, sharding, ranks if ranks > 1 else all_ranks, width)
    share = -(-flat.padded // ranks)
    if not unit.is_trained:
        return KeptShare(0, share, (0,))
    return KeptShare(share, 0, _stepped(unit, flat, share, ranks) if sharding.keeps_original and share else (share,))


def laid_out(unit: GatheredUnit, sharding: FsdpSharding, ranks: int, width: int) -> FlatUnit:
    """The flat tensor of a unit of FSDP 1."""
    aligned = _ALIGNED // width if sharding.keeps_original else 1
    starts, end = [], 0
    for tensor in unit.tensors:
        end = aligned * -(-end // aligned)
        starts.append(end)
        end += tensor.size
    return FlatUnit(tuple(starts), ranks * -(-end // ranks))


def _rows(tensor: Tensor, ranks: int) -> int:
    """The elements that a rank stores of a parameter of FSDP 2; without a shape, as of a vector."""
    rows, *others = tensor.shape or (tensor.size,)
    return -(-rows // ranks) * prod(others)


def _stepped(unit: GatheredUnit, flat: FlatUnit, share: int, ranks: int) -> tuple[int, ...]:
    """The trained elements in the share of each rank, without what pads them."""
    found = [0] * ranks
    for start, tensor in zip(flat.starts, unit.tensors, strict=True):
        if not tensor.is_trained:
            continue
        end = start + tensor.size
        for rank in range(start // share, (end - 1) // share + 1):
            found[rank] += min(end, (rank + 1) * share) - max(start, rank * share)
    return tuple(found)

"""How FSDP divides the parameters of a unit among ranks, to the element, from their shapes alone.

FSDP 1 writes the parameters of a unit one after the other into a flat tensor and cuts it into equal parts, of which the
last is padded. With ``use_orig_params`` each parameter starts at a multiple of 16 bytes of the dtype that is computed
in, and the whole is padded to a multiple of the ranks (``_init_flat_param_and_metadata`` and ``_get_shard`` in
torch/distributed/fsdp/_flat_param.py). FSDP 2 divides each parameter by rows, as ``torch.chunk`` does: the first ranks
have ``ceil(rows / ranks)``, the next what is left, the last may have none, and every rank stores as much as the first
(``_init_sharded_param`` in torch/distributed/fsdp/_fully_shard/_fsdp_param.py).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.smoke.records.fsdp import FSDP2, ShardPiece, UnitShare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.smoke.records.fsdp import FsdpUnit

ALIGNED = 16  # bytes
BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2}


def of_flat(
    sizes: Sequence[int], ranks: int, rank: int, *, aligned_to: int = 0, padded_to: int | None = None
) -> UnitShare:
    """The share of FSDP 1; ``aligned_to`` elements, 0 without ``use_orig_params``. Parameters are in order.

    NO_SHARD pads to a multiple of all ranks too, though each of them keeps the whole.
    """
    starts, end = [], 0
    for size in sizes:
        if aligned_to:
            end = aligned_to * math.ceil(end / aligned_to)
        starts.append(end)
        end += size
    if aligned_to:
        multiple = padded_to or ranks
        end = multiple * math.ceil(end / multiple)
    share = math.ceil(end / ranks)
    first = rank * share
    pieces = []
    for begin, size in zip(starts, sizes, strict=True):
        low, high = max(begin, first), min(begin + size, first + share)
        pieces.append(ShardPiece(max(0, low - first), low - begin, high - low) if low < high else ShardPiece(0, 0, 0))
    return UnitShare(share, pieces)


def of_rows(shapes: Sequence[tuple[int, ...]], ranks: int, rank: int) -> UnitShare:
    """The share of FSDP 2."""
    stored, pieces = 0, []
    for shape in shapes:
        rows, width = (shape[0], math.prod(shape[1:])) if shape else (1, 1)
        most = math.ceil(rows / ranks)
        low, high = min(rows, rank * most), min(rows, (rank + 1) * most)
        stored += most * width
        pieces.append(ShardPiece(0, low * width if high > low else 0, (high - low) * width))
    return UnitShare(stored, pieces)


def of_unit(version: str, unit: FsdpUnit, ranks: int, place: int) -> UnitShare:
    """The share of a unit that the rank at this place of a group of ranks has to keep."""
    shapes = [one.shape for one in unit.shards]
    if version == FSDP2:
        return of_rows(shapes, ranks, place)
    computed = unit.compute_dtype or next((one.dtype for one in unit.shards), "float32")
    aligned_to = alignment(BYTES.get(computed, 4), keeps_original=unit.keeps_original)
    padded_to = unit.copies if ranks == 1 else ranks
    return of_flat([math.prod(one) for one in shapes], ranks, place, aligned_to=aligned_to, padded_to=padded_to)


def of_own_place(version: str, unit: FsdpUnit) -> UnitShare:
    """The share of a unit that its rank has to keep, among the ranks that divide it."""
    return of_unit(version, unit, unit.ranks, unit.place)


def alignment(compute_bytes: int, *, keeps_original: bool) -> int:
    """The elements at multiples of which parameters start in a flat tensor of FSDP 1."""
    return ALIGNED // compute_bytes if keeps_original else 0

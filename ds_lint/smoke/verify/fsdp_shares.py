"""What each rank holds of a model that FSDP shards, compared with arithmetic on the shapes of its parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected import fsdp_shares

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.fsdp import FsdpHolding, FsdpUnit, UnitShare

PARAMETERS, GRADIENTS, STATES = "parameters", "gradients", "optimizer-states"


def parameters(holdings: list[FsdpHolding], key: str | None, shard_ranks: int | None = None) -> Check:
    """The part of each parameter on each rank; ``shard_ranks`` are to divide a unit, None: as the units say."""
    whole = _elements(holdings[0])
    stored = [one.stored for one in holdings]
    expected = [to_store(one, shard_ranks) for one in holdings]
    if shard_ranks is None:
        shard_ranks = max((unit.ranks for unit in holdings[0].units), default=1)
    wrong = (words for rank, one in enumerate(holdings) for words in wrong_shares(rank, one, shard_ranks))
    broken = next(wrong, None) or _uncovered(holdings)
    if broken is None and stored != expected:
        rank = next(number for number, pair in enumerate(zip(stored, expected, strict=True)) if pair[0] != pair[1])
        broken = f"rank {rank} keeps {stored[rank]:,} elements of parameters, but its share is {expected[rank]:,}"
    parts = f"1/{shard_ranks} of " if shard_ranks > 1 else ""
    most, least = max(stored, default=0), min(stored, default=0)
    held = f"{most:,}" if most == least else f"{least:,} to {most:,}"
    return Check(
        PARAMETERS,
        "pass" if broken is None else "fail",
        key,
        expected,
        stored,
        "elements",
        broken or f"each rank holds {held} elements of parameters, {parts}{whole:,} with what pads them",
    )


def of_trained(
    id: str, kind: str, held: list[int], holdings: list[FsdpHolding], key: str | None, shard_ranks: int | None = None
) -> Check:
    """The elements of gradients, or of a state of the optimizer, that each rank holds."""
    expected = [trained_share(one, shard_ranks) for one in holdings]
    wrong = next((rank for rank, pair in enumerate(zip(held, expected, strict=True)) if pair[0] != pair[1]), None)
    whole = sum(math.prod(one.shape) for one in holdings[0].shards if one.is_trained)
    most, least = max(held, default=0), min(held, default=0)
    return Check(
        id,
        "pass" if wrong is None else "fail",
        key,
        expected,
        held,
        "elements",
        f"each rank holds {f'{most:,}' if most == least else f'{least:,} to {most:,}'} elements of {kind}"
        if wrong is None
        else f"rank {wrong} holds {held[wrong]:,} elements of {kind}, but its share of the {whole:,} that are trained "
        f"is {expected[wrong]:,}",
    )


def trained_share(holding: FsdpHolding, shard_ranks: int | None = None) -> int:
    """The elements that the optimizer of a rank updates: the flat parameter of FSDP 1 counts with what pads it."""
    total = sum(one.elements for one in holding.outside if one.is_trained)
    for unit in holding.units:
        share = _share(holding, unit, shard_ranks)
        if not unit.keeps_original:
            total += share.stored if any(one.is_trained for one in unit.shards) else 0
            continue
        total += sum(piece.elements for piece, shard in zip(share.pieces, unit.shards, strict=True) if shard.is_trained)
    return total


def _share(holding: FsdpHolding, unit: FsdpUnit, shard_ranks: int | None) -> UnitShare:
    return fsdp_shares.of_unit(holding.version, unit, shard_ranks or unit.ranks, unit.place)


def to_store(holding: FsdpHolding, shard_ranks: int | None) -> int:
    """The elements that a rank has to store of all parameters, with what pads them."""
    outside = sum(math.prod(one.shape) for one in holding.outside)
    return outside + sum(_share(holding, unit, shard_ranks).stored for unit in holding.units)


def wrong_shares(rank: int, holding: FsdpHolding, shard_ranks: int) -> Iterator[str]:
    """In words, units that are divided in another way than they have to be."""
    for unit in holding.units:
        share, name = _share(holding, unit, shard_ranks), unit_name(unit)
        if unit.ranks != shard_ranks:
            yield f"{unit.ranks:,} ranks divide {name}, not {shard_ranks:,}"
        if unit.stored != share.stored:
            yield (
                f"rank {rank:,} keeps {unit.stored:,} elements of {name}, but its share on {shard_ranks:,} ranks is "
                f"{share.stored:,}"
            )
        for shard, piece in zip(unit.shards, share.pieces, strict=True):
            if shard.elements != piece.elements:
                yield (
                    f"rank {rank:,} has {shard.elements:,} of {math.prod(shard.shape):,} elements of {shard.name}, "
                    f"not {piece.elements:,}"
                )


def _uncovered(holdings: list[FsdpHolding]) -> str | None:
    """A parameter of which the ranks together do not have each element once for each copy."""
    found: dict[str, list[int]] = {}
    for holding in holdings:
        for unit in holding.units:
            for one in unit.shards:
                so_far = found.setdefault(one.name, [0, math.prod(one.shape) * unit.copies])
                so_far[0] += one.elements
    for name, (total, whole) in found.items():
        if total != whole:
            return f"the ranks together have {total:,} elements of {name}, not {whole:,}"
    return None


def _elements(holding: FsdpHolding) -> int:
    return sum(math.prod(one.shape) for one in (*holding.shards, *holding.outside))


def unit_name(unit: FsdpUnit) -> str:
    """A unit in words."""
    names = [name for name in unit.modules if name]
    return f"the unit {' and '.join(names)}" if names else "the unit of the model itself"

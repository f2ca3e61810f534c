"""The model states of one rank with FSDP: its shards of the parameters, their gradients, and the optimizer's states.

There are no master weights beside the parameters: with mixed precision these are kept in fp32 and cast for each pass.
Counts are those of the real tensors (``tests/fidelity/test_memory_fsdp_states.py``).
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ds_lint.footprint.band import NOTHING, Band, exactly
from ds_lint.footprint.fsdp.shares import kept
from ds_lint.footprint.fsdp.units import units
from ds_lint.footprint.optimizers import kept as kept_by_optimizer
from ds_lint.footprint.placed import FULL, Amount, Placed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.fsdp.shares import KeptShare
    from ds_lint.footprint.fsdp.units import GatheredUnit
    from ds_lint.footprint.setup import TrainingSetup

_MOST_KNOWN = 32
_known: dict[tuple[object, ...], tuple[object, list[ShardedUnit]]] = {}


class ShardedUnit(NamedTuple):
    """A unit, and what the rank that holds most keeps of it.

    ``gathered`` are the elements that all ranks send for it, with what pads them, and ``trained`` those of its
    gradients: FSDP 1 has one for the whole unit, with zeros for what is frozen.
    """

    unit: GatheredUnit
    gathered: int
    trained: int
    share: KeptShare


class FsdpWidths(NamedTuple):
    """The bytes of an element of what is kept of trained and frozen parameters, and of those that are computed with."""

    trained: Band
    frozen: Band
    computed: Band


def widths(setup: TrainingSetup) -> FsdpWidths:
    """The bytes of an element of each kind."""
    sharding = setup.fsdp
    assert sharding is not None  # noqa: S101 - of a run with FSDP
    loaded = sharding.loaded_width
    trained = exactly(FULL) if sharding.is_mixed and sharding.upcasts else loaded
    return FsdpWidths(trained, loaded, exactly(setup.width) if sharding.is_mixed else loaded)


def shard_ranks(setup: TrainingSetup) -> int:
    """The ranks that divide each unit."""
    assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
    return setup.fsdp.ranks(setup.ranks, setup.ranks_per_node)


def sharded(setup: TrainingSetup) -> list[ShardedUnit]:
    """The units of the model with the shares of a rank."""
    sharding, ranks = setup.fsdp, shard_ranks(setup)
    assert sharding is not None  # noqa: S101 - of a run with FSDP
    width = round(widths(setup).computed.likely)
    key = (id(setup.tensors), sharding, ranks, setup.ranks, width)
    if key not in _known:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        alike: dict[object, ShardedUnit] = {}  # layers are
        found = []
        for unit in units(setup.tensors, sharding, ranks):
            kind = tuple((one.size, one.shape, one.is_trained) for one in unit.tensors)
            if kind not in alike:
                alike[kind] = _sharded(unit, kept(unit, sharding, ranks, setup.ranks, width), ranks, sharding.version)
            found.append(alike[kind]._replace(unit=unit))
        _known[key] = setup.tensors, found  # which keeps the tensors alive, and their id theirs
    return _known[key][1]


def most_stepped(found: list[ShardedUnit]) -> int:
    """The elements that the optimizer updates on the rank that has most of them."""
    alike = Counter(one.share.stepped for one in found)
    for_all = sum(stepped[0] * count for stepped, count in alike.items() if len(stepped) == 1)
    by_rank = [[number * count for number in stepped] for stepped, count in alike.items() if len(stepped) > 1]
    return for_all + max(map(sum, zip(*by_rank, strict=True)), default=0)


def _sharded(unit: GatheredUnit, share: KeptShare, ranks: int, version: int) -> ShardedUnit:
    if version == 1:
        return ShardedUnit(unit, unit.size, unit.size if unit.is_trained else 0, share)
    trained = sum(tensor.size for tensor in unit.tensors if tensor.is_trained)
    return ShardedUnit(unit, ranks * (share.trained + share.frozen), trained, share)


def of(setup: TrainingSetup) -> dict[str, Placed]:
    """What each kind of model state takes on one rank at the boundary of a step."""
    found, width = sharded(setup), widths(setup)
    trained = sum(one.share.trained for one in found)
    frozen = sum(one.share.frozen for one in found)
    stepped = most_stepped(found)
    states, state_width = kept_by_optimizer(setup)
    numbers = states.times(stepped)
    held = {
        "parameters": _numbers(trained, width.trained).plus(_numbers(frozen, width.frozen)),
        "gradients": _numbers(trained, width.trained),
        "master_weights": Amount(),
        "optimizer_states": Amount(numbers, _product(numbers, state_width)),
        "buckets": Amount(),
    }
    assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
    if setup.fsdp.offloads:
        return {name: Placed(host=amount) for name, amount in held.items()}
    return {name: Placed(gpu=amount) for name, amount in held.items()}


def reference(setup: TrainingSetup) -> Placed:
    """What one rank holds of a frozen copy of the model: likely a share, at the most all of it on the GPU."""
    frozen = setup._replace(tensors=tuple(tensor._replace(is_trained=False) for tensor in setup.tensors))
    held = of(frozen)["parameters"]
    whole = widths(setup).frozen.times(setup.parameter_count)
    held = held._replace(gpu=Amount(*(band._replace(most=max(band.most, whole.most)) for band in held.gpu)))
    return held if setup.reference else held.at_the_most()


def _numbers(elements: int, width: Band) -> Amount:
    return Amount(exactly(elements), width.times(elements)) if elements else Amount(NOTHING, NOTHING)


def _product(one: Band, other: Band) -> Band:
    return Band(one.least * other.least, one.likely * other.likely, one.most * other.most)

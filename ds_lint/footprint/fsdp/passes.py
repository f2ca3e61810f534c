"""What FSDP makes whole, of parameters and gradients, while a forward and a backward pass run; in bytes.

The formulas are those of the storages that were counted with the newest releases of Accelerate and torch
(``tests/fidelity/test_memory_fsdp_states.py``). FSDP 1 keeps the gradient of each parameter until it writes them into
the flat one. FSDP 2 copies what it gathers into each parameter, and keeps what it reduces until the next unit is done.
Where the dtype is not known, the likely one counts.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.fsdp.states import shard_ranks, sharded, widths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.footprint.fsdp.states import ShardedUnit
    from ds_lint.footprint.setup import TrainingSetup


class UnitPass(NamedTuple):
    """The end of the backward pass of one unit: what is there beside the states, and how many units are left."""

    live: float  # whole parameters
    kept: float  # gradients: shards, and what is added up whole
    whole: float  # the gradient of the unit
    reduced: float  # gradients that are still on their way to other ranks
    left: float  # of the layers, as a share


class FsdpPasses:
    """The sizes of one run, unit by unit.

    ``inner`` are the units of the layers. Of those around them, ``first`` are gathered for the embedding, ``tail`` for
    the last norm and the head, and ``lasting`` from the start of the forward to the end of the backward pass.
    """

    def __init__(self, setup: TrainingSetup) -> None:
        assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
        found, ranks = sharded(setup), shard_ranks(setup)
        width = widths(setup)
        self._sharding = setup.fsdp
        self._computed, self._trained = width.computed.likely, width.trained.likely
        self._is_first = setup.fsdp.version == 1
        self._has_copies = ranks < setup.ranks
        self.is_sharded = ranks > 1 or not self._is_first
        self._order = found
        self._inner = [one for one in found if not one.unit.is_around]
        around = [one for one in found if one.unit.is_around]
        self._first = [one for one in around if one.unit.reshards]
        self._tail = [one for one in around if one.unit.is_tail and not one.unit.is_tied]
        self._lasting = [one for one in around if one not in self._first and one not in self._tail]
        # ``no_sync`` keeps gradients whole until the last micro batch.
        adds_up = setup.accumulation_steps > 1 and not setup.fsdp.syncs_each_batch
        self.added_up = self._gradients(found) if adds_up else 0.0

    @property
    def count(self) -> int:
        """The units of the layers."""
        return len(self._inner)

    @property
    def largest(self) -> float:
        """The largest unit that is gathered and freed."""
        return max(map(self._whole, self._inner), default=0.0)

    @property
    def lasting(self) -> float:
        """What is whole between the forward and the backward pass."""
        return self._wholes(one for one in self._order if not one.unit.reshards) if self.is_sharded else 0.0

    def forward(self) -> float:
        """The most that is whole while the layers are gathered one after the other.

        FSDP 2 frees what it received for a unit only once the next one is there.
        """
        held = before = most = 0.0
        for one in self._order:
            size = self._whole(one)
            most = max(most, held + (size if self._is_first else before + 2 * size))
            held += 0.0 if one.unit.reshards or not self.is_sharded else size
            before = size
        return most

    def backward(self) -> Iterator[UnitPass]:
        """The ends of the backward passes of the layers, from the last to the first."""
        reduced = self._sent(self._tail)
        kept = self.added_up + self._shards(self._tail)
        kept += sum(map(self._of_head, self._lasting))
        for place in range(len(self._inner) - 1, -1, -1):
            one = self._inner[place]
            gradient = self._gradients([one])
            whole = 2 * gradient if self._is_first else gradient
            yield UnitPass(self._gathered_at(place), kept, whole, reduced, place / len(self._inner))
            kept += self._shards([one]) - (gradient if self.added_up else 0.0)
            reduced = self._sent([one])

    def end(self) -> UnitPass:
        """The end of the backward pass: the gradients of the embedding, and of what lasts until then."""
        last = [*self._first, *self._lasting]
        gradients = self._gradients(last) * (2 if self._is_first else 1)
        kept = self._shards([*self._inner, *self._tail])
        return UnitPass(self._wholes(last), kept, gradients, self._sent(self._inner[:1]), 0.0)

    # ------------------------------------------------------------------------------------------------------ of units

    def _whole(self, one: ShardedUnit) -> float:
        """A unit as it is computed with: nothing is made if each rank has it whole, in that dtype."""
        return one.gathered * self._computed if self.is_sharded or self._sharding.is_mixed else 0.0

    def _wholes(self, found: Iterable[ShardedUnit]) -> float:
        return sum(map(self._whole, found))

    def _gradients(self, found: Iterable[ShardedUnit]) -> float:
        """Whole gradients before they are reduced."""
        return sum(one.trained for one in found) * self._computed

    def _of_head(self, one: ShardedUnit) -> float:
        """The gradients that are there first, of what is around the layers; with FSDP 1 the embedding comes last."""
        trained = [tensor.size for tensor in one.unit.tensors if tensor.is_trained]
        return sum(trained[1:] or trained if self._is_first else trained) * self._computed

    def _sent(self, found: Iterable[ShardedUnit]) -> float:
        """What FSDP 2 sends to other ranks of the gradients of units, with what pads them."""
        if self._is_first:
            return 0.0
        return sum(one.gathered * (one.share.trained > 0) for one in found) * self._computed

    def _shards(self, found: Iterable[ShardedUnit]) -> float:
        """The shares of gradients after they are reduced.

        FSDP 1 keeps them there until the end, also if they are offloaded. FSDP 2 also keeps them in the dtype in which
        they were reduced, if copies of the model average them.
        """
        is_moved = self._sharding.offloads and not self._is_first
        width = 0.0 if is_moved else self._trained
        width += self._computed if self._has_copies and not self._is_first else 0.0
        return sum(one.share.trained for one in found) * width

    def _gathered_at(self, place: int) -> float:
        """What is whole while the backward pass of a unit runs: with it the one before it, if it is gathered early."""
        one, lasting = self._inner[place], self._wholes(self._lasting)
        if self.is_sharded and not one.unit.reshards:
            return lasting + self._wholes(self._inner[: place + 1])
        before = self._wholes(self._inner[place - 1 : place] if place else self._first)
        is_early = not self._is_first or self._sharding.prefetches or self._sharding.prefetches_forward
        # Without a gradient of its own, FSDP 1 frees a unit after the next one has begun.
        is_late = self._is_first and not one.trained
        live = lasting + self._whole(one) + (before if (is_early or is_late) and self.is_sharded else 0.0)
        # The last unit that was gathered early in the forward pass stays.
        return live + (self._whole(one) if self._sharding.prefetches_forward else 0.0)

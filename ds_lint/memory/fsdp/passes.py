"""What FSDP makes whole, of parameters and gradients, while a forward and a backward pass run; in bytes.

The formulas are those of the storages that were counted with Accelerate 1.15.0 and torch 2.13.0
(``tests/fidelity/test_memory_fsdp.py``). FSDP 1 keeps the gradient of each parameter until it writes them into the flat
one, FSDP 2 what it reduces until the next unit is done. Where the dtype is not known, the likely one counts.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory.fsdp.states import shard_ranks, sharded, widths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.memory.fsdp.states import ShardedUnit
    from ds_lint.memory.setup import TrainingSetup


class UnitPass(NamedTuple):
    """The end of the backward pass of one unit: what is there beside the states, and how many units are left."""

    live: float  # whole parameters
    kept: float  # gradients: shards, and what is added up whole
    whole: float  # the gradient of the unit
    reduced: float  # gradients that are still on their way to other ranks
    left: float  # of the layers, as a share


class FsdpPasses:
    """The sizes of one run, unit by unit."""

    def __init__(self, setup: TrainingSetup) -> None:
        assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
        found = sharded(setup)
        width = widths(setup)
        self._sharding = setup.fsdp
        self._computed, self._trained = width.computed.likely, width.trained.likely
        self._is_first = setup.fsdp.version == 1
        self._prefetches = setup.fsdp.prefetches or setup.fsdp.prefetches_forward
        self.is_sharded = shard_ranks(setup) > 1 or not self._is_first
        self.around = [one for one in found if one.unit.is_around]
        self.inner = [one for one in found if not one.unit.is_around]
        # ``no_sync`` keeps gradients whole until the last micro batch.
        adds_up = setup.accumulation_steps > 1 and not setup.fsdp.syncs_each_batch
        self.added_up = sum(map(self._gradient, found)) if adds_up else 0.0

    @property
    def largest(self) -> float:
        """The largest unit that is gathered and freed."""
        return max(map(self._whole, self.inner), default=0.0)

    @property
    def lasting(self) -> float:
        """The units that are gathered from the forward to the backward pass."""
        return sum(self._whole(one) for one in (*self.around, *self.inner) if not one.unit.reshards and self.is_sharded)

    @property
    def forward(self) -> float:
        """What one unit takes as it is gathered; FSDP 2 copies it from what came in into each parameter."""
        return self.largest if self._is_first else 2 * self.largest

    def backward(self) -> Iterator[UnitPass]:
        """The ends of the backward passes of the layers, from the last to the first."""
        tail = [one for one in self.around if not one.unit.reshards]
        reduced = 0.0 if self._is_first else sum(map(self._gradient, tail))
        kept = self.added_up
        # The gradient of the head stays until that of the embedding is there, with FSDP 1.
        kept += sum(map(self._of_head, tail)) if self._is_first else sum(map(self._shard, tail))
        for place in range(len(self.inner) - 1, -1, -1):
            one = self.inner[place]
            gradient = self._gradient(one)
            both = gradient + self._alone(one) if self._is_first else gradient
            yield UnitPass(self._gathered_at(place), kept, both, reduced, place / len(self.inner))
            kept += self._shard(one) - (gradient if self.added_up else 0.0)
            reduced = 0.0 if self._is_first else gradient

    def end(self) -> UnitPass:
        """The end of the backward pass: the gradients of what is around the layers come last."""
        kept = sum(map(self._shard, self.inner))
        if self._is_first:
            whole = sum(self._alone(one) + self._gradient(one) for one in self.around)
            return UnitPass(self._lasting_backward(), kept, whole, 0.0, 0.0)
        kept += sum(self._shard(one) for one in self.around if not one.unit.reshards)
        first = [one for one in self.around if one.unit.reshards]
        reduced = sum(map(self._gradient, self.inner[:1]))
        return UnitPass(sum(map(self._whole, first)), kept, sum(map(self._gradient, first)), reduced, 0.0)

    # ------------------------------------------------------------------------------------------------------- one unit

    def _whole(self, one: ShardedUnit) -> float:
        """A unit as it is computed with: nothing is made if each rank has it whole, in that dtype."""
        return one.size * self._computed if self.is_sharded or self._sharding.is_mixed else 0.0

    def _gradient(self, one: ShardedUnit) -> float:
        """The whole gradient of a unit before it is reduced: of FSDP 1 the flat one, with what is frozen."""
        elements = one.trained and one.size if self._is_first else one.trained
        return elements * self._computed

    def _alone(self, one: ShardedUnit) -> float:
        """The gradients of the trained parameters of a unit."""
        return one.trained * self._computed

    def _of_head(self, one: ShardedUnit) -> float:
        """Those that are there first, of what is around the layers: all but that of the embedding."""
        trained = [tensor.size for tensor in one.unit.tensors if tensor.is_trained]
        return sum(trained[1:] or trained) * self._computed

    def _shard(self, one: ShardedUnit) -> float:
        """The share of the gradient after it is reduced; FSDP 1 keeps it there until the end, also if it is offloaded."""
        return 0.0 if self._sharding.offloads and not self._is_first else one.share.trained * self._trained

    def _gathered_at(self, place: int) -> float:
        """What is whole while the backward pass of a unit runs: with it the one before it, if it is gathered early."""
        one, lasting = self.inner[place], self._lasting_backward()
        if self.is_sharded and not one.unit.reshards:
            return lasting + sum(map(self._whole, self.inner[: place + 1]))
        first = [each for each in self.around if each.unit.reshards]
        before = sum(map(self._whole, self.inner[place - 1 : place] if place else first))
        is_early = self.is_sharded and (self._prefetches or not self._is_first)
        twice = self._whole(one) if self._sharding.prefetches_forward else 0.0  # the last that was gathered early stays
        return lasting + self._whole(one) + (before if is_early else 0.0) + twice

    def _lasting_backward(self) -> float:
        """What is whole in the whole backward pass: with NO_SHARD the model itself is cast once more."""
        if self._is_first or not self.is_sharded:
            return sum(self._whole(one) for one in self.around if not one.unit.reshards or not self.is_sharded)
        return 0.0

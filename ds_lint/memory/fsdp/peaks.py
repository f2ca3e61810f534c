"""The moments at which a GPU holds most with FSDP, and what a node holds, by phase.

A backward pass holds, beside what is kept: the unit that is computed, the one that is gathered early, their whole
gradients until they are reduced, and the shards of the gradients that were. The formulas are those of the storages that
were counted with Accelerate 1.15.0 and torch 2.13.0 (``tests/fidelity/test_memory_fsdp.py``); FSDP 1 keeps a gradient
of each parameter until it writes them into the flat one, FSDP 2 what it reduces until the next unit is done.
"""

from __future__ import annotations

from itertools import accumulate

from ds_lint.memory.band import NOTHING, Band, exactly
from ds_lint.memory.fsdp.states import shard_ranks, sharded, widths
from ds_lint.memory.placed import FULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.memory.fsdp.states import FsdpWidths, ShardedUnit
    from ds_lint.memory.placed import Placed
    from ds_lint.memory.setup import TrainingSetup

    Parts = dict[str, Placed]
    Moment = dict[str, Band]

_STATES = ("parameters", "optimizer_states")
_NORMS_OF_A_LAYER = 2
_EARLY = 2  # units that are gathered at once while another is computed, on a GPU (``_FreeEventQueue``)


def gathered(setup: TrainingSetup) -> Band:
    """The bytes of whole parameters in a pass: those that stay from the start to the end, and of the largest unit."""
    passes = _Passes(setup)
    one = passes.largest
    early = one if passes.is_sharded else 0
    return Band(passes.lasting + one, passes.lasting + one + early, passes.lasting + one + _EARLY * early)


def with_autocast(setup: TrainingSetup, activations: Band) -> Band:
    """Activations under the autocast that Accelerate adds with mixed precision.

    It computes each LayerNorm in fp32, which keeps a copy of its input in fp32, and gives the script the logits in fp32
    (``convert_outputs_to_fp32``). The norms of newer models are no LayerNorm, and compute in fp32 anyway.
    """
    if setup.fsdp is None or not setup.fsdp.is_mixed or setup.micro_batch is None or setup.sequence_length is None:
        return activations
    tokens = setup.micro_batch * setup.sequences * setup.sequence_length
    norms = [one for one in setup.tensors if one.name.endswith(".bias") and _is_norm(one.name)]
    inputs = [one.size for one in norms]
    if setup.is_checkpointed and inputs:  # of one layer at a time
        inputs = inputs[:_NORMS_OF_A_LAYER]
    more = tokens * FULL * sum(inputs)
    logits = setup.architecture.get("vocab_size")
    kept = tokens * (FULL - setup.width) * logits if isinstance(logits, int) else 0
    return Band(activations.least, activations.likely + more, activations.most + more + kept)


def _is_norm(name: str) -> bool:
    module = name.lower().split(".")[-2]
    return "norm" in module or module.startswith("ln")


def moments(setup: TrainingSetup, parts: Parts, activations: Band, in_layers: Band) -> dict[str, list[Moment]]:
    """What one GPU holds at the moments that can be the highest of each phase.

    ``in_layers`` are the activations that are left when the first gradient is there.
    """
    held = {name: parts[name].gpu.bytes for name in _STATES}
    passes = _Passes(setup)
    return {
        "initialization": passes.initializes(),
        "step": [*(_together(held, one) for one in passes.steps(activations, in_layers)), _updates(setup, parts, held)],
        "saving": [_together(held, {"live": passes.saves()})],
    }


class _Passes:
    """The sizes that the moments of a run are made of; bytes, likely ones where the dtype is not known."""

    def __init__(self, setup: TrainingSetup) -> None:
        assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
        self.setup, self.sharding = setup, setup.fsdp
        self.width: FsdpWidths = widths(setup)
        self.found: list[ShardedUnit] = sharded(setup)
        self.is_first = self.sharding.version == 1
        self.ranks = shard_ranks(setup)
        self.is_sharded = self.ranks > 1 or not self.is_first
        self.around = [one for one in self.found if one.unit.is_around]
        self.inner = [one for one in self.found if not one.unit.is_around]

    @property
    def largest(self) -> float:
        """The largest unit that is gathered and freed, as it is computed with."""
        return max((self.whole(one) for one in self.inner), default=0)

    @property
    def lasting(self) -> float:
        """What is gathered from the forward to the backward pass."""
        if not self.is_sharded:
            return 0
        return sum(self.whole(one) for one in self.found if not one.unit.reshards)

    def whole(self, one: ShardedUnit) -> float:
        """A unit as it is computed with: nothing is made if each rank has it whole, in that dtype."""
        if not self.is_sharded and not self.sharding.is_mixed:
            return 0
        return one.unit.size * self.width.computed.likely

    def gradient(self, one: ShardedUnit) -> float:
        """The whole gradient of a unit before it is reduced: of FSDP 1 the flat one, with what is frozen."""
        if not one.unit.is_trained:
            return 0
        trained = [tensor.size for tensor in one.unit.tensors if tensor.is_trained or self.is_first]
        return sum(trained) * self.width.computed.likely

    def alone(self, one: ShardedUnit) -> float:
        """The gradients of the trained parameters of a unit."""
        return sum(tensor.size for tensor in one.unit.tensors if tensor.is_trained) * self.width.computed.likely

    def shard(self, one: ShardedUnit) -> float:
        """The share of a unit's gradient after it is reduced, if it stays on the GPU."""
        return 0 if self.sharding.offloads else one.share.trained * self.width.trained.likely

    def kept(self, one: ShardedUnit) -> float:
        """The share of a unit as it is loaded."""
        return (one.share.trained + one.share.frozen) * self.width.frozen.likely

    # ------------------------------------------------------------------------------------------------------ the phases

    def initializes(self) -> list[Moment]:
        """Units go to the GPU one after the other, and each is cut; the model itself comes last with FSDP 1."""
        loaded = self.width.frozen.likely
        order = [*self.inner, *self.around] if self.is_first else [*self.inner, *reversed(self.around)]
        before = [0.0, *accumulate(0 if self.sharding.offloads else self._begun(one) for one in order)]
        if self.is_first:  # the parameters, and the flat one that they are written into
            on_their_way = [2 * one.unit.size * loaded + self.kept(one) for one in order]
        else:
            on_their_way = [self._begun_whole(one) for one in order]
        last = max((held + more for held, more in zip(before, on_their_way, strict=False)), default=0)
        most = last
        if not self.is_first and self.sharding.loads_once:  # one parameter after the other
            largest = max((tensor.size for tensor in self.setup.tensors), default=0)
            last = before[-1] + largest * self.width.trained.likely
            most = max(most, last + largest * self.width.trained.likely)
        found: list[Moment] = [{"parameters": Band(min(before[-1], last), last, most)}]
        copied = sum(self.kept(one) for one in order if one.unit.is_trained)
        if self.is_first and self.width.trained.likely > loaded and not self.sharding.offloads:
            # The shards in 16 bit stay until the first forward pass (``FlatParamHandle.init_flat_param_attributes``).
            upcast = sum(one.share.trained * self.width.trained.likely for one in order)
            frozen = sum(one.share.frozen * loaded for one in order)
            found.append({"parameters": exactly(upcast + frozen + copied)})
        return found

    def _begun(self, one: ShardedUnit) -> float:
        """The share of a unit as it is once it is cut: FSDP 2 gets the parameters in the dtype that they keep."""
        if self.is_first:
            return self.kept(one)
        return one.share.trained * self.width.trained.likely + one.share.frozen * self.width.frozen.likely

    def _begun_whole(self, one: ShardedUnit) -> float:
        return sum(
            tensor.size * (self.width.trained if tensor.is_trained else self.width.frozen).likely
            for tensor in one.unit.tensors
        )

    def steps(self, activations: Band, in_layers: Band) -> list[Moment]:
        """The forward and the backward pass, beside the states."""
        added_up = sum(map(self.gradient, self.found)) if self._adds_up_whole() else 0
        more = _EARLY * self.largest if self.is_sharded else 0
        one = self.largest
        forward = one if self.is_first else 2 * one  # gathered, and copied into each parameter
        found: list[Moment] = [
            {"live": Band(self.lasting, self.lasting, self.lasting + one), "activations": activations, "gradients": exactly(added_up)},
            {
                "live": Band(self.lasting + one, self.lasting + forward, self.lasting + one + more),
                "activations": in_layers,
                "gradients": exactly(added_up),
            },
        ]
        found += self._backward(in_layers, added_up)
        found.append(self._ends())
        return found

    def _adds_up_whole(self) -> bool:
        """Whether gradients stay whole until the last micro batch (``no_sync``)."""
        return self.setup.accumulation_steps > 1 and not self.sharding.syncs_each_batch

    def _backward(self, in_layers: Band, added_up: float) -> list[Moment]:
        """Unit by unit, from the last to the first: when the first begins, and the highest of all that end."""
        tail = [one for one in self.around if not one.unit.reshards]
        sharded = 0.0 if self.is_first else sum(map(self.shard, tail))
        reduced = 0.0 if self.is_first else sum(map(self.gradient, tail))
        # With FSDP 1 the gradient of the head stays until that of the embedding is there.
        left = added_up + (sum(map(self._of_head, tail)) if self.is_first else 0.0)
        extra = _EARLY * self.largest if self.is_sharded else 0.0
        found: list[Moment] = []
        for place in range(len(self.inner) - 1, -1, -1):
            one, share = self.inner[place], place / len(self.inner)
            live, grads = self._gathered_at(place), self.gradient(one)
            both = grads + self.alone(one) if self.is_first else grads
            if not found:
                begun = {"live": Band(live, live, live + extra), "gradients": exactly(left + sharded)}
                found.append(begun | {"activations": in_layers, "buckets": Band(0, reduced, reduced)})
            found.append(
                {
                    "live": Band(live, live, live + extra),
                    "activations": Band(in_layers.least * share, in_layers.likely * share, in_layers.most),
                    "gradients": Band(left + sharded, left + sharded + both, left + sharded + both + grads),
                    "buckets": Band(0, reduced, reduced + grads),
                }
            )
            left -= grads if added_up else 0.0
            sharded += self.shard(one)
            reduced = 0.0 if self.is_first else grads
        return [*found[:1], *sorted(found[1:], key=_likely)[-1:]]

    def _gathered_at(self, place: int) -> float:
        """What is whole while the backward pass of a unit runs: with it the one before it, if it is gathered early."""
        one, lasting = self.inner[place], self._lasting_backward()
        if self.is_sharded and not one.unit.reshards:
            return lasting + sum(map(self.whole, self.inner[: place + 1]))
        first = sum(self.whole(each) for each in self.around if each.unit.reshards)
        before = self.whole(self.inner[place - 1]) if place else first
        return lasting + self.whole(one) + (before if self._prefetches() else 0.0)

    def _lasting_backward(self) -> float:
        """What is gathered in the whole backward pass: with NO_SHARD the model itself is cast once more."""
        if not self.is_sharded:
            return sum(self.whole(one) for one in self.around)
        return sum(self.whole(one) for one in self.around if not one.unit.reshards) if self.is_first else 0.0

    def _prefetches(self) -> bool:
        return self.is_sharded and (self.sharding.prefetches or not self.is_first)

    def _of_head(self, one: ShardedUnit) -> float:
        """The gradients of the model itself that are there first: all but that of the embedding, which comes last."""
        trained = [tensor.size for tensor in one.unit.tensors if tensor.is_trained]
        return sum(trained[1:] or trained) * self.width.computed.likely

    def _ends(self) -> Moment:
        """The last gradients: those of the model itself, with FSDP 1 once alone and once in the flat one."""
        sharded = sum(map(self.shard, self.inner))
        if self.is_first:
            grads = sum(self.alone(one) + self.gradient(one) for one in self.around)
            return {"live": exactly(self._lasting_backward()), "gradients": exactly(sharded + grads)}
        sharded += sum(self.shard(one) for one in self.around if not one.unit.reshards)
        first = [one for one in self.around if one.unit.reshards]
        reduced = max((self.gradient(one) for one in self.inner[:1]), default=0)
        return {
            "live": exactly(sum(map(self.whole, first))),
            "gradients": exactly(sharded + sum(map(self.gradient, first))),
            "buckets": Band(0, reduced, 2 * reduced),
        }

    def saves(self) -> Band:
        """What is gathered to write a checkpoint: unit by unit in the dtype that is kept, or parameter by parameter."""
        width = self.width.trained.likely
        if not self.sharding.saves_whole or not self.is_sharded:
            return NOTHING
        if not self.is_first:
            largest = max((tensor.size for tensor in self.setup.tensors), default=0) * width
            return Band(0, largest, 2 * largest)
        around = sum(one.unit.size for one in self.around) * width
        largest = max((one.unit.size for one in self.inner), default=0) * width
        return Band(0, around + largest, 2 * (around + largest))


def _updates(setup: TrainingSetup, parts: Parts, held: Moment) -> Moment:
    """The step of the optimizer; torch's computes with lists of tensors of the size of what it updates."""
    if setup.fsdp is not None and setup.fsdp.offloads:
        return held
    lists = parts["parameters"].gpu.bytes
    more = Band(0, lists.likely, 2 * lists.most)
    return held | {"gradients": parts["gradients"].gpu.bytes.plus(more)}


def _likely(moment: Moment) -> float:
    return sum(band.likely for band in moment.values())


def _together(one: Moment, other: Moment) -> Moment:
    """What is held together, kind by kind."""
    return {name: one.get(name, NOTHING).plus(other.get(name, NOTHING)) for name in one | other}

"""What makes a run fit: changes in the order of the guides, from what costs the least to what costs the most.

What likely fits and what surely does are two answers. Of each, all changes that suffice alone are given; if none does,
a combination without a change too many. More ranks are advised within reach, and a run that nothing of this makes fit
is said to need so many.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from ds_lint.footprint import changes as steps_of
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.remembered import remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from ds_lint.footprint.capacity import Bound, Capacity
    from ds_lint.footprint.changes import Price, SetupChange, Step, Write
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.setup import TrainingSetup

    # The setup of a run after changes; None if the stack rejects what they leave.
    Apply: TypeAlias = Callable[[Sequence[SetupChange]], TrainingSetup | None]
    Tried: TypeAlias = tuple[tuple[SetupChange, ...], Estimate]

_FEW, _FEW_RANKS = 3, 4  # changes, beyond which adapters are worth a thought, and ranks up to which they are
_NOT_BF16 = (steps_of.low_precision_states,)  # what a GPU without bf16 cannot do


class Advice(NamedTuple):
    """Changes that together make a run fit: surely, or else likely."""

    changes: tuple[SetupChange, ...]
    estimate: Estimate
    is_sure: bool

    @property
    def words(self) -> str:
        """The changes in words."""
        return ", ".join(change.words for change in self.changes)

    @property
    def writes(self) -> list[Write]:
        """What to write; of a key that several changes write, the last value."""
        last = {(write.place, write.key): write for change in self.changes for write in change.writes}
        return list(last.values())

    @property
    def price(self) -> list[Price]:
        """What the changes cost, each once."""
        return list(dict.fromkeys(price for change in self.changes for price in change.price))


def advice(
    setup: TrainingSetup,
    capacity: Capacity,
    applied: Apply | None = None,
    *,
    has_bf16: bool = True,
    adapted: Callable[[], TrainingSetup | None] = lambda: None,
    most: int | None = None,
) -> list[Advice]:
    """What makes a run likely fit, and then what makes it surely fit; nothing where it does already.

    ``applied`` tells the setup of the run after changes, None if they leave a config that the stack rejects.
    ``has_bf16`` is whether the GPUs compute in bf16, ``adapted`` makes the setup that trains adapters, if there is one.
    ``most`` is how many of each kind are enough.
    """
    if not capacity.is_known or capacity.holds(now := estimate(setup)):
        return []
    plans = _plans(setup)
    found: list[Advice] = []
    bounds: tuple[Bound, ...] = ("likely", "most")
    for bound in bounds:
        if capacity.holds(now, bound):
            continue
        steps = [step for step in STEPS if has_bf16 or step not in _NOT_BF16]
        search = _Search(plans, steps, applied or (lambda changes: changes[-1].setup), capacity, bound)
        for changes, needed in islice(search.sufficient(adapted), most):
            found.append(Advice(changes, needed, capacity.holds(needed)))
    sure = {one.words for one in found if one.is_sure}
    likely = [one for one in found if one.words not in sure]
    return [*likely, *{one.words: one for one in found if one.is_sure}.values()]


def least_ranks(setup: TrainingSetup, capacity: Capacity) -> Advice | None:
    """The fewest ranks on which a run likely fits with all that costs no precision and no result.

    If none are enough, what it takes on the most ranks that are counted; None if there are as many now.
    """
    found: list[Advice] = []
    for offloads in ((), (steps_of.optimizer_offload, steps_of.parameter_offload)):
        changes: list[SetupChange] = []
        now = setup
        for step in sorted((*_IN_PLACE, *offloads), key=_order):
            possible = list(step(now)) if step is not steps_of.stage_2 else []
            if possible and _matters(now, possible[-1].setup):
                changes.append(possible[-1])
                now = possible[-1].setup
        possible = list(steps_of.any_ranks(now))
        first = bisect_left(possible, True, key=lambda change: capacity.is_in_reach(estimate(change.setup), "likely"))
        for change in (possible[first:] or possible[-1:])[:1]:
            needed = estimate(change.setup)
            found.append(Advice((*changes, change), needed, capacity.holds(needed)))
    return min(
        found,
        key=lambda one: (not capacity.is_in_reach(one.estimate, "likely"), one.estimate.setup.world),
        default=None,
    )


def _matters(before: TrainingSetup, after: TrainingSetup) -> bool:
    """Whether a change changes anything: without training, nothing is computed again and no bucket is reduced."""
    was, then = estimate(before), estimate(after)
    return (was.gpu_bytes, was.host_bytes) != (then.gpu_bytes, then.host_bytes)


class _Plans:
    """The changes of one setup that suffice by their estimates; an editor asks for the same after nearly every edit."""

    def __init__(self, setup: TrainingSetup) -> None:
        self.setup = setup
        self._climbed: dict[tuple[object, ...], list[Step] | None] = {}
        self._changes: dict[tuple[object, ...], list[tuple[SetupChange, ...]]] = {}

    def climbed(self, ladder: Sequence[Step], capacity: Capacity, bound: Bound) -> list[Step] | None:
        """The steps of a ladder up to the first that suffices, without those that do not matter."""
        key = (*ladder, capacity, bound)
        if key not in self._climbed:
            taken = self._up_to_the_first(ladder, capacity, bound)
            for step in reversed(taken or ()):  # the dearest first
                rest = [one for one in taken or () if one is not step]
                left = self._farthest(rest) if rest else None
                if left and capacity.is_in_reach(estimate(left[-1].setup), bound):
                    taken = rest
            self._climbed[key] = taken
        return self._climbed[key]

    def changes(self, steps: Sequence[Step], capacity: Capacity, bound: Bound) -> list[tuple[SetupChange, ...]]:
        """What the steps change one after the other, if each changes something and the last setup fits.

        The last goes only as far as it must, first, and those before it as far as they can. What a stage cannot do
        without another comes after the stage.
        """
        key = (*steps, capacity, bound)
        if key not in self._changes:
            *before, last = sorted(steps, key=_order)
            made = self._farthest(before)
            possible = list(last(made[-1].setup if made else self.setup)) if made is not None else []
            if last in _ONWARD:
                first = bisect_left(
                    possible, True, key=lambda change: capacity.is_in_reach(estimate(change.setup), bound)
                )
                possible = possible[first:]
            self._changes[key] = [
                (*(made or ()), change) for change in possible if capacity.is_in_reach(estimate(change.setup), bound)
            ]
        return self._changes[key]

    def _up_to_the_first(self, steps: Sequence[Step], capacity: Capacity, bound: Bound) -> list[Step] | None:
        """The steps up to the first that suffices: each takes less than the one before, if not of the host."""
        taken: list[tuple[Step, TrainingSetup]] = []
        setup = self.setup
        for step in steps:
            if possible := list(step(setup)):
                setup = possible[-1].setup
                taken.append((step, setup))
        if not taken:
            return None

        def holds(one: tuple[Step, TrainingSetup]) -> bool:
            return capacity.is_in_reach(estimate(one[1]), bound)

        if holds(taken[-1]):
            first = bisect_left(taken, True, key=holds)
        elif not capacity._replace(host=None).holds(estimate(setup), bound):  # it is the GPU that is too small
            return None
        else:
            first = next((place for place, one in enumerate(taken) if holds(one)), len(taken))
        return [step for step, _ in taken[: first + 1]] if first < len(taken) else None

    def _farthest(self, steps: Sequence[Step]) -> list[SetupChange] | None:
        """The changes of steps one after the other, each as far as it goes; None if one changes nothing."""
        changes: list[SetupChange] = []
        setup = self.setup
        for step in sorted(steps, key=_order):
            possible = list(step(setup))
            if not possible:
                return None
            changes.append(possible[-1])
            setup = possible[-1].setup
        return changes


@remembered()
def _plans(setup: TrainingSetup) -> _Plans:
    return _Plans(setup)


class _Search:
    """The search for changes that the stack accepts."""

    def __init__(self, plans: _Plans, steps: Sequence[Step], applied: Apply, capacity: Capacity, bound: Bound) -> None:
        self.plans = plans
        self.steps = steps
        self.applied = applied
        self.capacity = capacity
        self.bound = bound

    def sufficient(self, adapted: Callable[[], TrainingSetup | None]) -> Iterator[Tried]:
        """All changes that suffice alone; if none does, the best combinations, one after the other."""
        is_alone = False
        for step in self.steps:
            if (tried := self._tried((step,))) is not None:
                is_alone = True
                yield tried
        if is_alone:
            return
        found = self._first(_LADDERS)
        if found is not None:
            yield found
            if self.plans.setup.world > _FEW_RANKS or (len(found[0]) <= _FEW and not _is_slow(found[0][-1].setup)):
                return
        else:
            for ladders in (_HERE, _MORE):
                if (tried := self._first(ladders)) is not None:
                    yield tried
        with_adapters = adapted()
        if with_adapters is not None:
            step = steps_of.adapters(with_adapters)
            for place in ((), (steps_of.optimizer_offload, steps_of.parameter_offload)):
                if (tried := self._climbed((step, *_IN_PLACE, *place))) is not None:
                    yield tried
                    return

    def _first(self, ladders: Iterable[Sequence[Step]]) -> Tried | None:
        """The combination of the first ladder that is long enough, of the steps that this machine can do."""
        for ladder in ladders:
            if (tried := self._climbed([step for step in ladder if step in self.steps])) is not None:
                return tried
        return None

    def _climbed(self, ladder: Sequence[Step]) -> Tried | None:
        """A ladder up to where it suffices; a step that the stack rejects is left out, and the ladder climbed again."""
        while True:
            taken = self.plans.climbed(ladder, self.capacity, self.bound)
            if taken is None:
                return None
            if (tried := self._tried(taken)) is not None:
                return tried
            refused = next((step for step in taken if self._is_refused(step)), None)
            if refused is None:
                return None
            ladder = [step for step in ladder if step is not refused]

    def _is_refused(self, step: Step) -> bool:
        possible = list(step(self.plans.setup))
        return bool(possible) and self.applied((possible[-1],)) is None

    def _tried(self, steps: Sequence[Step]) -> Tried | None:
        """The mildest changes of these steps that suffice and that the stack accepts."""
        for changes in self.plans.changes(steps, self.capacity, self.bound):
            made = self.applied(changes)
            if made is not None and self.capacity.is_in_reach(needed := estimate(made), self.bound):
                return changes, needed
        return None


def _is_slow(setup: TrainingSetup) -> bool:
    """Whether parameters, or anything on NVMe, are moved in each step."""
    offload = setup.optimizer_offload
    return setup.parameter_offload is not None or (offload is not None and offload.device == "nvme")


def _order(step: Step) -> int:
    """Stages before what only they can do, and what goes as far as it must at the end."""
    return 0 if step in _STAGES else 2 if step in _ONWARD else 1


_STAGES = (steps_of.stage_2, steps_of.stage_3)
_ONWARD = (  # each change of which takes less than the one before
    steps_of.smaller_micro_batch,
    steps_of.shorter_sequences,
    steps_of.more_ranks,
)
STEPS: tuple[Step, ...] = (
    steps_of.without_offload,
    steps_of.sharded_loading,
    steps_of.fused_attention,
    steps_of.smaller_buckets,
    steps_of.smaller_micro_batch,
    steps_of.checkpointing,
    steps_of.stage_2,
    steps_of.stage_3,
    steps_of.optimizer_offload,
    steps_of.parameter_offload,
    steps_of.nvme,
    steps_of.eight_bit_optimizer,
    steps_of.low_precision_states,
    steps_of.shorter_sequences,
    steps_of.more_ranks,
)
_IN_PLACE: tuple[Step, ...] = (  # without the host
    steps_of.fused_attention,
    steps_of.smaller_buckets,
    steps_of.smaller_micro_batch,
    steps_of.checkpointing,
    steps_of.stage_2,
    steps_of.stage_3,
    steps_of.sharded_loading,
)
_TO_THE_CPU = (*_IN_PLACE, steps_of.optimizer_offload, steps_of.parameter_offload)
_LADDERS: tuple[tuple[Step, ...], ...] = (
    _IN_PLACE,
    _TO_THE_CPU,
    (steps_of.without_offload, *_IN_PLACE),
    (*_IN_PLACE, steps_of.eight_bit_optimizer),
    (*_IN_PLACE, steps_of.nvme),
)
_HERE: tuple[tuple[Step, ...], ...] = (  # on the same machines, with less precision or another result
    (*_TO_THE_CPU, steps_of.low_precision_states),
    (*_IN_PLACE, steps_of.shorter_sequences),
    (*_TO_THE_CPU, steps_of.shorter_sequences),
    (*_IN_PLACE, steps_of.nvme, steps_of.shorter_sequences),
)
_MORE: tuple[tuple[Step, ...], ...] = (  # on more machines
    (*_IN_PLACE, steps_of.more_ranks),
    (*_TO_THE_CPU, steps_of.more_ranks),
    (steps_of.without_offload, *_IN_PLACE, steps_of.more_ranks),
)

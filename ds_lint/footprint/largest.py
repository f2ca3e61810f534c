"""The largest micro batch, sequence and model that fit: surely, if the most does, and likely, if what is likely does.

Each grows what a run takes, so that the largest is found by halves. A model of another size is a stand-in with the
usual proportions (``ds_lint/facts/parameter_count.py``).
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.estimate import estimate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.footprint.capacity import Bound, Capacity
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.knowledge.records import JsonObject

    # The setup with a model of so many parameters; None if there is none.
    Sized = Callable[[int], TrainingSetup | None]

_MOST_SAMPLES, _MOST_STEPS = 2**16, 2**15
STEP = 128  # tokens between two lengths of sequences that are tried
_DIGITS = range(10, 100)  # of numbers of parameters, which have two that count
_LEAST_MODEL, _MOST_MODEL = 7, 13  # powers of ten
_POSITIONS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")  # of a config.json


class Largest(NamedTuple):
    """The largest number that likely fits, and the one that surely does; 0 if none does."""

    likely: int
    surely: int


class LargestSizes(NamedTuple):
    """What a run may grow to, each alone; None if it is not known. ``positions`` are all that the model has."""

    micro_batch: Largest | None = None
    sequence_length: Largest | None = None
    parameters: Largest | None = None
    positions: int | None = None


def sizes(setup: TrainingSetup, capacity: Capacity, sized: Sized) -> LargestSizes:
    """What a run may grow to on this machine."""
    return LargestSizes(
        micro_batch(setup, capacity), sequence_length(setup, capacity), parameters(capacity, sized), _positions(setup)
    )


def micro_batch(setup: TrainingSetup, capacity: Capacity) -> Largest | None:
    """The largest micro batch; None if the memory or the activations are not known."""
    if capacity.gpu is None or not _counts_activations(setup):
        return None
    return _largest(lambda size: setup._replace(micro_batch=size), _MOST_SAMPLES, capacity)


def sequence_length(setup: TrainingSetup, capacity: Capacity) -> Largest | None:
    """The longest sequence, of those that the model has positions for; None as for a micro batch."""
    if capacity.gpu is None or not _counts_activations(setup):
        return None
    steps = _largest(lambda steps: setup._replace(sequence_length=steps * STEP), _MOST_STEPS, capacity)
    most = _positions(setup)
    return Largest(*(min(number * STEP, most or number * STEP) for number in steps))


def parameters(capacity: Capacity, sized: Sized) -> Largest | None:
    """The largest model, with two digits that count."""
    if capacity.gpu is None:
        return None
    grid = list(_numbers_of_parameters())

    def at(place: int) -> TrainingSetup | None:
        return sized(grid[place - 1])

    found = _largest(at, len(grid), capacity, is_far=True)
    return Largest(*(grid[place - 1] if place else 0 for place in found))


def _numbers_of_parameters() -> Iterator[int]:
    for power in range(_LEAST_MODEL, _MOST_MODEL):
        yield from (digits * 10 ** (power - 1) for digits in _DIGITS)


def _counts_activations(setup: TrainingSetup) -> bool:
    known = setup if setup.micro_batch is not None else setup._replace(micro_batch=1)
    return known.sequence_length is not None and "activations" in estimate(known).parts


def _positions(setup: TrainingSetup) -> int | None:
    if setup.is_stand_in:
        return None
    return positions(setup.architecture)


def positions(architecture: JsonObject) -> int | None:
    """The tokens of a sequence that a model has positions for, by its config.json."""
    known = (architecture.get(name) for name in _POSITIONS)
    return next((count for count in known if isinstance(count, int) and count > 0), None)


def _largest(
    changed: Callable[[int], TrainingSetup | None], most: int, capacity: Capacity, *, is_far: bool = False
) -> Largest:
    """The largest numbers up to ``most`` whose setups fit; ``is_far`` if it is not near 1."""
    known: dict[int, Estimate | None] = {}

    def holds(number: int, bound: Bound) -> bool:
        if number not in known:
            setup = changed(number)
            known[number] = estimate(setup) if setup is not None else None
        needed = known[number]
        return needed is not None and capacity.is_in_reach(needed, bound)

    likely = _last(lambda number: holds(number, "likely"), most, is_far=is_far)
    surely = _last(lambda number: holds(number, "most"), likely, is_far=True)
    return Largest(likely, surely)


def _last(holds: Callable[[int], bool], most: int, *, is_far: bool) -> int:
    """The last of the numbers from 1 on for which it holds; 0 if it does for none."""
    low, high = 0, most + 1
    number = 1
    while not is_far and number <= most:
        if not holds(number):
            high = number
            break
        low, number = number, 2 * number
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low

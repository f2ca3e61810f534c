"""How ZeRO divides the parameters of a model among ranks, to the element, from the shapes of the parameters alone.

Stage 3 divides each parameter (``partition_numel`` in deepspeed/runtime/zero/partition_parameters.py). Stages 1 and 2
write the parameters of a group one after the other into a flat tensor, and cut that into equal parts: a parameter that
crosses a border is in two parts or more (deepspeed/runtime/zero/stage_1_and_2.py). Experts have flat tensors of their
own, which the ranks with the same experts share (deepspeed/moe/utils.py).
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.job import TrainedParameter

ALIGNED = 16  # bytes; with zero_optimization.parameter_alignment a parameter starts at a multiple of them


class Layout(NamedTuple):
    """The order and the alignment of parameters in the flat tensor of stages 1 and 2."""

    alignment: int = 1  # elements; each parameter but the first starts at a multiple of it
    is_round_robin: bool = False  # neighbours go to different ranks


class _Place(NamedTuple):
    """A parameter in the flat tensor of its group."""

    start: int
    end: int


class _FlatTensor(NamedTuple):
    """The parameters of a group, of which each of a number of ranks has a part."""

    places: list[_Place]
    ranks: int
    experts: int  # neighbouring ranks that hold different experts

    @property
    def share(self) -> int:
        """The part of a rank: ``nccl_start_alignment_factor`` makes its length even."""
        return 2 * math.ceil(self.places[-1].end / (2 * self.ranks))


def partition(parameters: list[TrainedParameter], stage: int, ranks: int, layout: Layout | None = None) -> int:
    """The elements of a rank's share, with what pads it; every rank has as many."""
    if stage == 3:
        return sum(math.ceil(parameter.elements / ranks) for parameter in parameters)
    return sum(flat.share for flat in _flat_tensors(parameters, ranks, layout))


def in_partition(parameters: list[TrainedParameter], ranks: int, layout: Layout) -> list[int]:
    """By rank, the elements of its share at stages 1 and 2 without what pads it."""
    return [
        sum(max(0, min(place.end, end) - max(place.start, start)) for start, end, place in parts)
        for parts in _by_rank(parameters, ranks, layout)
    ]


def touched(parameters: list[TrainedParameter], ranks: int, layout: Layout) -> list[int]:
    """By rank, the elements of the parameters in its share at stages 1 and 2; those on a border count whole.

    Source: ``get_partition_info`` in deepspeed/runtime/zero/stage_1_and_2.py.
    """
    return [
        sum(place.end - place.start for start, end, place in parts if place.start < end and place.end > start)
        for parts in _by_rank(parameters, ranks, layout)
    ]


def _by_rank(parameters: list[TrainedParameter], ranks: int, layout: Layout) -> Iterator[list[tuple[int, int, _Place]]]:
    """For each rank, every parameter with the start and the end of the rank's part in the same flat tensor."""
    tensors = list(_flat_tensors(parameters, ranks, layout))
    for rank in range(ranks):
        yield [
            (part * flat.share, (part + 1) * flat.share, place)
            for flat in tensors
            for part in [rank // flat.experts]
            for place in flat.places
        ]


def _flat_tensors(parameters: list[TrainedParameter], ranks: int, layout: Layout | None) -> Iterator[_FlatTensor]:
    """The places of the parameters of each group."""
    alignment, is_round_robin = layout or Layout()
    by_group: dict[tuple[int, int], list[int]] = {}
    for parameter in parameters:
        by_group.setdefault((parameter.group, parameter.expert_ranks), []).append(parameter.elements)
    for (_, expert_ranks), sizes in by_group.items():
        experts = max(expert_ranks, 1)
        parts = ranks // experts
        order = itertools.chain.from_iterable(sizes[part::parts] for part in range(parts)) if is_round_robin else sizes
        places: list[_Place] = []
        for size in order:
            start = alignment * math.ceil(places[-1].end / alignment) if places else 0
            places.append(_Place(start, start + size))
        yield _FlatTensor(places, parts, experts)

"""How ZeRO divides the parameters among the ranks, to the element.

Stage 3 divides each parameter (``_partition_param`` in deepspeed/runtime/zero/partition_parameters.py). Stages 1 and 2
write those of a group one after the other into one flat tensor and cut that (stage_1_and_2.py), so a parameter that
crosses a border belongs to several ranks. MiCS divides among the ranks of a shard (mics.py).
"""

from __future__ import annotations

import bisect
import itertools
import re
from typing import NamedTuple

from ds_lint.footprint.remembered import OF_A_BATCH, OF_STATES, by_tensors, remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.setup import TrainingSetup

ALIGNED = 16  # bytes; with parameter_alignment each parameter but the first starts at a multiple of them
_AT_THE_ENDS = re.compile("embed|lm_head", re.IGNORECASE)
_VECTOR = re.compile(r"(^|\.)bias$|norm|(^|\.)ln_", re.IGNORECASE)
_WITHOUT_DECAY = re.compile(r"bias|norm|(^|\.)ln_", re.IGNORECASE)  # Trainer.get_decay_parameter_names


class SubGroup(NamedTuple):
    """Partitions that stage 3 steps at once."""

    sizes: tuple[int, ...]  # of the partition of each parameter
    is_moved: bool  # to the host or NVMe, if the optimizer is offloaded

    @property
    def size(self) -> int:
        """The elements of all of them."""
        return sum(self.sizes)


@by_tensors
def largest_trained(setup: TrainingSetup) -> int:
    """The elements of the largest parameter that is trained."""
    return max((tensor.size for tensor in setup.tensors if tensor.is_trained), default=0)


def part(size: int, ranks: int) -> int:
    """The part of one parameter that each rank has at stage 3."""
    return -(-size // ranks)


def parts(setup: TrainingSetup, tensors: Iterable[Tensor]) -> list[int]:
    """The part of each of these parameters that a rank has at stage 3; fewer ranks share those of experts."""
    shards = setup.shards
    if setup.part.degrees.experts == 1:
        return [part(one.size, shards) for one in tensors]
    return [part(one.size, setup.shards_of(one)) for one in tensors]


@remembered(*OF_STATES, "optimizer")
def partitions(setup: TrainingSetup) -> int:
    """The elements of the partitions of one rank at stage 3, of frozen parameters too."""
    return sum(parts(setup, setup.tensors))


@remembered(*OF_STATES)
def share(setup: TrainingSetup) -> int:
    """The elements that one rank updates, with what pads them; every rank has as many."""
    if setup.stage == 0 and not setup.uses_bf16_optimizer:
        return setup.trained_count
    if setup.stage == 3:
        return sum(parts(setup, (tensor for tensor in setup.tensors if tensor.is_trained)))
    return sum(flat.share for flat in _flat_tensors(setup))


def padded(setup: TrainingSetup) -> int:
    """At stages 1 and 2, the elements of the flat tensors of all groups, with what pads them."""
    return sum(flat.share * flat.ranks for flat in _flat_tensors(setup))


def of_muon(setup: TrainingSetup) -> TrainingSetup:
    """The same setup with the parameters that Muon steps alone; of them, ``share`` and ``touched`` are known."""
    matrices = tuple(tensor for tensor in setup.tensors if tensor.is_trained and is_for_muon(tensor))
    return setup._replace(tensors=matrices)


def width_of_muon(setup: TrainingSetup) -> int:
    """At stages 1 and 2, the bytes of an element of what Muon computes with (``_muon_momentum_buffer``)."""
    return setup.accumulation_width or setup.width if keeps_those_of_others(setup) else setup.width


def touched(setup: TrainingSetup, *, pads: bool = True, rank: int | None = None) -> int:
    """At stages 1 and 2, the elements of the parameters that lie in a rank's share, of the rank where they are most.

    A parameter on a border counts whole: gradients are kept that way (``copy_grads_in_partition``), and beside them
    what pads the share (``get_flat_partition``).
    """
    found = _touched(setup, pads=pads)
    return max(found.values()) if rank is None else found[max(one for one in found if one <= rank)]


def holds_most(setup: TrainingSetup) -> int:
    """The first of the ranks that hold the most gradients; at other stages than 1 and 2 all hold as many."""
    if setup.stage not in (1, 2):
        return 0
    held = _of_others(setup) if keeps_those_of_others(setup) else _touched(setup, pads=True)
    return max(held, key=lambda rank: (held[rank], -rank))


def keeps_those_of_others(setup: TrainingSetup) -> bool:
    """Whether a rank adds up the gradients of all parameters, and at the step still has those of other shares.

    Stage 1 does in another dtype than that of the parameters (``use_grad_accum_attribute``).
    """
    is_apart = setup.accumulation_width not in (None, setup.width)
    return setup.stage == 1 and is_apart and not setup.uses_bf16_optimizer


def of_others(setup: TrainingSetup) -> int:
    """The elements that are held of gradients outside a rank's share, of the rank where they are most.

    Those that fit into a bucket were moved there (``grad_reduc.data = new_grad_reduc``), and hold it.
    """
    return max(_of_others(setup).values())


@remembered(*OF_A_BATCH)
def _of_others(setup: TrainingSetup) -> dict[int, int]:
    flat = _flat_tensors(setup)
    buffers = (1 + setup.overlaps_communication) * setup.reduce_bucket
    found = {}
    for rank in _differing_ranks(setup):
        sizes = [size for one in flat for size in one.untouched(rank)]
        large = [size for size in sizes if size > setup.reduce_bucket]
        found[rank] = sum(large) + (buffers if len(large) < len(sizes) else 0)
    return found


@remembered(*OF_STATES)
def _differing_ranks(setup: TrainingSetup) -> list[int]:
    """The ranks that hold something else than the rank before them: few, however many ranks there are."""
    ranks = sorted({0}.union(*(one.borders for one in _flat_tensors(setup))))
    return [rank for rank in ranks if rank < setup.ranks]


def _touched(setup: TrainingSetup, *, pads: bool) -> dict[int, int]:
    return _touched_and_padded(setup) if pads else _touched_alone(setup)


@remembered(*OF_STATES)
def _touched_and_padded(setup: TrainingSetup) -> dict[int, int]:
    return _touched_by_rank(setup, pads=True)


@remembered(*OF_STATES)
def _touched_alone(setup: TrainingSetup) -> dict[int, int]:
    return _touched_by_rank(setup, pads=False)


def _touched_by_rank(setup: TrainingSetup, *, pads: bool) -> dict[int, int]:
    flat = _flat_tensors(setup)
    return {rank: sum(one.touched(rank, pads=pads) for one in flat) for rank in _differing_ranks(setup)}


@remembered(*OF_A_BATCH)
def sub_groups(setup: TrainingSetup) -> list[SubGroup]:
    """The groups that stage 3 steps one after the other (``_create_fp16_sub_groups``).

    With a ratio below 1, the first ones stay on the GPU (``subgroup_to_device``).
    """
    found = _sizes_of_sub_groups(setup)
    offload = setup.optimizer_offload
    stay = int((1 - offload.ratio) * len(found)) if offload is not None else len(found)
    return [SubGroup(sizes, index >= stay) for index, sizes in enumerate(found)]


@remembered(*OF_STATES)
def _sizes_of_sub_groups(setup: TrainingSetup) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    most = setup.sub_group
    for group in _groups(setup):
        sizes: list[int] = []
        together = 0
        for size in parts(setup, group):
            sizes.append(size)
            together += size
            if together >= most:
                found.append(tuple(sizes))
                sizes, together = [], 0
        found += [tuple(sizes)] if sizes else []
    return found


class _Flat:
    """The flat tensor of one group of parameters: the place of each, and the share of a rank."""

    def __init__(self, sizes: Iterable[int], ranks: int, alignment: int, sharing: int = 1) -> None:
        self.ranks = ranks
        self.sharing = sharing  # ranks that follow each other, each with a tensor of its own
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.total = [0]  # of the sizes of the parameters before each
        for size in sizes:
            start = alignment * -(-self.ends[-1] // alignment) if self.ends else 0
            self.starts.append(start)
            self.ends.append(start + size)
            self.total.append(self.total[-1] + size)
        # nccl_start_alignment_factor is 2.
        self.share = 2 * -(-self.ends[-1] // (2 * ranks)) if self.ends else 0

    @property
    def borders(self) -> set[int]:
        """The ranks with the first or the last element of a parameter, and those behind them."""
        places = (*self.starts, *(end - 1 for end in self.ends))
        ranks = {place // self.share for place in places if self.share}
        return {rank * self.sharing for rank in ranks | {rank + 1 for rank in ranks}}

    def _places(self, rank: int) -> tuple[int, int]:
        """The first parameter in the share of a data-parallel rank, and the first one after it."""
        first = bisect.bisect_right(self.ends, rank * self.share)
        return first, max(first, bisect.bisect_left(self.starts, (rank + 1) * self.share))

    def untouched(self, rank: int) -> list[int]:
        """The sizes of the parameters that have no part in a rank's share."""
        first, last = self._places(rank // self.sharing)
        sizes = [after - before for before, after in itertools.pairwise(self.total)]
        return sizes[:first] + sizes[last:]

    def touched(self, rank: int, *, pads: bool) -> int:
        """The elements of the parameters in a rank's share, and of what pads it between them and at the end."""
        place = rank // self.sharing
        start, end = place * self.share, (place + 1) * self.share
        first, last = self._places(place)
        if first >= last:
            return self.share if pads else 0
        whole = self.total[last] - self.total[first]
        outside = max(0, start - self.starts[first]) + max(0, self.ends[last - 1] - end)
        return whole + (self.share - (whole - outside) if pads else 0)


@remembered(*OF_STATES, "stage")
def _flat_tensors(setup: TrainingSetup) -> list[_Flat]:
    """The flat tensor of each group."""
    alignment = ALIGNED // setup.width if setup.aligns_parameters else 1
    found = []
    for group in _groups(setup):
        sizes = [tensor.size for tensor in group]
        sharing = setup.sharing(group[0])
        ranks = setup.ranks // sharing
        if setup.is_round_robin:
            sizes = list(itertools.chain.from_iterable(sizes[rank::ranks] for rank in range(min(ranks, len(sizes)))))
        found.append(_Flat(sizes, ranks, alignment, sharing))
    return found


@remembered(*OF_STATES, "stage", "ranks", "nodes")
def _groups(setup: TrainingSetup) -> list[list[Tensor]]:
    """The trained parameters by the group of the optimizer that they are in."""
    tensors = [tensor for tensor in setup.tensors if tensor.is_trained]
    if setup.optimizer == "muon":
        matrices = [one for one in tensors if is_for_muon(one)]
        if not setup.uses_zero_init:  # which leaves nothing to sort by (``MuonWithAuxAdam.__init__``)
            matrices.sort(key=lambda one: one.shape, reverse=True)
        groups = [matrices, [one for one in tensors if not is_for_muon(one)]]
    elif setup.decays_apart:
        groups = [[one for one in tensors if _decays(one)], [one for one in tensors if not _decays(one)]]
    else:
        groups = [tensors]
    if setup.part.degrees.experts > 1:  # those of experts are groups of their own, behind all others
        of_experts = [[one for one in group if setup.sharing(one) > 1] for group in groups]
        groups = [[one for one in group if setup.sharing(one) == 1] for group in groups] + of_experts
    return [group for group in groups if group]


def is_for_muon(tensor: Tensor) -> bool:
    """Whether Muon steps a parameter: a matrix between embedding and head (``set_optimizer_flags``)."""
    is_matrix = len(tensor.shape) > 1 if tensor.shape else not _VECTOR.search(tensor.name)
    return is_matrix and not _AT_THE_ENDS.search(tensor.name)


def _decays(tensor: Tensor) -> bool:
    return not _WITHOUT_DECAY.search(tensor.name)


@remembered(*OF_A_BATCH, "ranks", "nodes", "optimizer_offload", "parameter_offload", "accumulation_steps")
def persistent(setup: TrainingSetup) -> list[bool]:
    """Whether each parameter is never partitioned, which parameter_offload.py decides in the order of the model."""
    total, found = 0, []
    for tensor in setup.tensors:
        stays = tensor.size <= setup.persistence_threshold and tensor.size + total <= setup.persistence_total
        total += tensor.size if stays else 0
        found.append(stays)
    return found

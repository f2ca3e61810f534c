"""The stages of ZeRO, the offloads and activation checkpointing beside each other, each with what the run would take.

The fastest is first. Offload moves the states over PCIe in each step, and costs the most; checkpointing computes the
forward pass again. Stages up to 2 communicate as much as none, stage 3 half as much again
(https://arxiv.org/abs/1910.02054, section 7), so that among the former a larger micro batch counts first.
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.footprint.capacity import Capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.largest import LargestSizes, micro_batch
from ds_lint.footprint.setup import Offload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ds_lint.footprint.capacity import Bound
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.largest import Largest
    from ds_lint.footprint.setup import TrainingSetup

NONE, OPTIMIZER, BOTH = (), ("optimizer",), ("optimizer", "param")
CPU = Offload("cpu", is_pinned=True)
# With the defaults of ``deepspeed/runtime/zero/offload_config.py``.
OPTIMIZER_ON_NVME = Offload("nvme", is_pinned=True, buffer_count=4)
PARAMETERS_ON_NVME = Offload("nvme", is_pinned=True, buffer_count=5, buffer_size=10**8, kept=10**9)
_UNKNOWN = Capacity()
_COMMUNICATES_MORE = 3  # the stage that gathers parameters in each pass


class Combination(NamedTuple):
    """A stage with what is offloaded where: at stage 0 nothing, and parameters, or anything to NVMe, at 3 alone."""

    stage: int
    offload: tuple[str, ...] = NONE
    device: str | None = None


# Each is slower than the one before if the micro batch is the same.
COMBINATIONS = (
    *(Combination(stage) for stage in (0, 1, 2, 3)),
    *(Combination(stage, OPTIMIZER, "cpu") for stage in (1, 2, 3)),
    Combination(3, BOTH, "cpu"),
    Combination(3, BOTH, "nvme"),
)
_OFFLOADS = ((NONE, None), (OPTIMIZER, "cpu"), (BOTH, "cpu"), (BOTH, "nvme"))  # from the fastest to the slowest


class SweepRow(NamedTuple):
    """One combination with what it takes, and what it may grow to. ``places`` are those among the rows that fit."""

    combination: Combination
    estimate: Estimate
    is_chosen: bool  # by the config
    sizes: LargestSizes = LargestSizes()
    places: Places = (None, None)

    @property
    def largest(self) -> Largest | None:
        """The largest micro batch."""
        return self.sizes.micro_batch

    @property
    def stage(self) -> int:
        """The ZeRO stage."""
        return self.combination.stage

    @property
    def offload(self) -> tuple[str, ...]:
        """What is offloaded."""
        return self.combination.offload

    @property
    def device(self) -> str | None:
        """Where that lies: cpu or nvme."""
        return self.combination.device

    @property
    def words(self) -> str:
        """The row in words."""
        offload = f"{' and '.join(self.offload)} offload{' to NVMe' if self.device == 'nvme' else ''}"
        check = {None: "", True: "activation checkpointing", False: "no activation checkpointing"}[self.checkpointing]
        return ", ".join(filter(None, (f"ZeRO stage {self.stage}", offload if self.offload else "", check)))

    @property
    def checkpointing(self) -> bool | None:
        """Whether activations are computed again; None if it is not known, and no activations are counted."""
        return self.estimate.setup.is_checkpointed


if TYPE_CHECKING:
    from typing import TypeAlias

    Places: TypeAlias = tuple[int | None, int | None]  # by what is likely, and by what is sure
    Grown: TypeAlias = Callable[[TrainingSetup, Capacity], LargestSizes]


def _possible(setup: TrainingSetup) -> Iterator[Combination]:
    """Those that a run can have: without an optimizer there is stage 3 alone, and nothing of one to offload.

    A pipeline takes stages 0 and 1.
    """
    for combination in COMBINATIONS:
        if setup.is_pipeline and combination.stage > 1:
            continue
        if setup.untrained is None or (combination.stage == 3 and combination.offload != OPTIMIZER):
            yield combination


def sweep(
    setup: TrainingSetup,
    capacity: Capacity = _UNKNOWN,
    checkpointing: Sequence[bool] = (False, True),
    *,
    is_config: bool = True,
    grown: Grown = lambda setup, capacity: LargestSizes(micro_batch(setup, capacity)),
) -> list[SweepRow]:
    """A row for each combination, those that likely fit first, and the faster first.

    The row that the config has is marked; where a combination has no row of its own, as offload of the optimizer alone
    to NVMe, it counts as the one to the CPU. What makes the config certain to fail is left out otherwise.
    """
    if not _counts_activations(setup):
        checkpointing = () if setup.is_checkpointed is None else (setup.is_checkpointed,)
    rows = []
    for combination in _possible(setup):
        is_chosen = is_config and combination == _of(setup)
        if setup.dtype == "fp16" and combination.stage == 0 and not is_chosen:
            continue  # DeepSpeed divides gradients by a loss scale that it never multiplied by (DS411)
        other = setup if is_chosen else changed(setup, combination)
        for is_checkpointed in checkpointing or (None,):
            found = other._replace(is_checkpointed=is_checkpointed)
            rows.append(
                SweepRow(
                    combination,
                    estimate(found),
                    is_chosen and (is_checkpointed is None or setup.is_checkpointed in (None, is_checkpointed)),
                    grown(found, capacity),
                )
            )
    return _ranked(rows, capacity)


def fastest(rows: Sequence[SweepRow], place: int) -> SweepRow | None:
    """The row that is first by what is likely (0) or by what is sure (1); None if none fits."""
    return next((row for row in rows if row.places[place] == 1), None)


def changed(setup: TrainingSetup, combination: Combination) -> TrainingSetup:
    """The setup with another stage and other offloads; what is offloaded there already stays as it is."""
    optimizer, weights = (OPTIMIZER_ON_NVME, PARAMETERS_ON_NVME) if combination.device == "nvme" else (CPU, CPU)
    return at_stage(setup, combination.stage)._replace(
        optimizer_offload=_kept(setup.optimizer_offload, optimizer, "optimizer" in combination.offload),
        parameter_offload=_kept(setup.parameter_offload, weights, "param" in combination.offload),
    )


def at_stage(setup: TrainingSetup, stage: int) -> TrainingSetup:
    """The setup with another stage, and the defaults that depend on it."""
    if stage == setup.stage:
        return setup
    is_sharded = stage == 3
    return setup._replace(
        stage=stage,
        overlaps_communication=is_sharded or (setup.overlaps_communication and setup.stage != 3),
        optimizer_offload=_on_the_host(setup.optimizer_offload, stage),
        parameter_offload=setup.parameter_offload if is_sharded else None,
        hpz=setup.hpz if is_sharded else 1,
        mics=setup.mics if is_sharded else 0,
    )


def _kept(now: Offload | None, usual: Offload, is_offloaded: bool) -> Offload | None:
    if not is_offloaded:
        return None
    return now if now is not None and now.device == usual.device else usual


def _on_the_host(offload: Offload | None, stage: int) -> Offload | None:
    """An offload of the optimizer at a stage: below 3 all of it lies in host memory, and at 0 nothing is offloaded."""
    if offload is None or stage == 3:
        return offload
    return offload._replace(device="cpu", ratio=1.0) if stage else None


def _of(setup: TrainingSetup) -> Combination:
    """The combination that a setup has."""
    given = (("optimizer", setup.optimizer_offload), ("param", setup.parameter_offload))
    offload = tuple(name for name, where in given if where is not None)
    is_all_there = offload == BOTH and any(where is not None and where.device == "nvme" for _, where in given)
    device = None if not offload else "nvme" if is_all_there else "cpu"
    return Combination(setup.stage, offload, device)


def _counts_activations(setup: TrainingSetup) -> bool:
    return "activations" in estimate(setup).parts


def _ranked(rows: list[SweepRow], capacity: Capacity) -> list[SweepRow]:
    """The rows in their order, with their places among those that fit."""
    if not capacity.is_known:
        return sorted(rows, key=lambda row: _slowness(row, 0))
    bounds: tuple[Bound, ...] = ("likely", "most")
    places: list[dict[int, int]] = []
    for kind, bound in enumerate(bounds):
        fitting = [row for row in rows if _fits(row, capacity, bound)]
        fitting.sort(key=lambda row: _slowness(row, kind))
        places.append({id(row): place for place, row in enumerate(fitting, 1)})
    likely, surely = places
    ranked = sorted(rows, key=lambda row: (likely.get(id(row), len(rows) + 1), _slowness(row, 0)))
    return [row._replace(places=(likely.get(id(row)), surely.get(id(row)))) for row in ranked]


def _fits(row: SweepRow, capacity: Capacity, bound: Bound) -> bool:
    """Whether a row fits with one micro batch or another, of which steps can have more."""
    if row.largest is None:
        return capacity.is_in_reach(row.estimate, bound)
    return (row.largest.likely if bound == "likely" else row.largest.surely) > 0


def _slowness(row: SweepRow, kind: int) -> tuple[int, ...]:
    """What makes a row slow, the worst first."""
    stage, offload, device = row.combination
    return (
        _OFFLOADS.index((offload, device)),
        bool(row.checkpointing),
        stage == _COMMUNICATES_MORE,
        -row.largest[kind] if row.largest is not None else 0,
        stage,
    )

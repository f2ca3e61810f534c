"""The stages of ZeRO and the offloads beside each other, each with what the run would take."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory.estimate import estimate
from ds_lint.memory.setup import Offload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.memory.estimate import Estimate
    from ds_lint.memory.setup import TrainingSetup

NONE, OPTIMIZER, BOTH = (), ("optimizer",), ("optimizer", "param")
# What a stage can offload: at stage 0 nothing, and parameters at stage 3 alone.
COMBINATIONS = (
    *((stage, NONE) for stage in (0, 1, 2, 3)),
    *((stage, OPTIMIZER) for stage in (1, 2, 3)),
    (3, BOTH),
)
_CPU = Offload("cpu", is_pinned=True)


class SweepRow(NamedTuple):
    """One combination of a stage and what is offloaded to the CPU, with what it takes."""

    stage: int
    offload: tuple[str, ...]
    estimate: Estimate
    is_chosen: bool  # by the config


def sweep(setup: TrainingSetup) -> list[SweepRow]:
    """A row for each combination; offload to NVMe counts as offload in the row that the config has."""
    rows = []
    for stage, offload in sorted(COMBINATIONS):
        if setup.part.degrees.stages > 1 < stage:  # of which a pipeline takes none
            continue
        is_chosen = stage == setup.stage and offload == _offloaded(setup)
        rows.append(
            SweepRow(stage, offload, estimate(setup if is_chosen else changed(setup, stage, offload)), is_chosen)
        )
    return rows


def changed(setup: TrainingSetup, stage: int, offload: tuple[str, ...]) -> TrainingSetup:
    """The setup with another stage and other offloads; what is offloaded already stays where it is."""
    return at_stage(setup, stage)._replace(
        optimizer_offload=(setup.optimizer_offload or _CPU) if "optimizer" in offload else None,
        parameter_offload=(setup.parameter_offload or _CPU) if "param" in offload else None,
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


def _on_the_host(offload: Offload | None, stage: int) -> Offload | None:
    """An offload of the optimizer at a stage: below 3 all of it lies in host memory, and at 0 nothing is offloaded."""
    if offload is None or stage == 3:
        return offload
    return offload._replace(device="cpu", ratio=1.0) if stage else None


def _offloaded(setup: TrainingSetup) -> tuple[str, ...]:
    given = (("optimizer", setup.optimizer_offload), ("param", setup.parameter_offload))
    return tuple(name for name, where in given if where is not None)

"""The user's real number of ranks with FSDP, checked with two simulated ranks: what each keeps of the model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import FAKE, Check, Held
from ds_lint.output.quantities import in_units
from ds_lint.output.smoke import by_kind
from ds_lint.record import Record
from ds_lint.smoke.expected.fsdp_expectation import FsdpExpectation
from ds_lint.smoke.records.job import WORLD
from ds_lint.smoke.small_run.real_world import RANKS_OF_NODE
from ds_lint.smoke.verify import fsdp_shares

if TYPE_CHECKING:
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config
    from ds_lint.smoke.records.failure import Failure
    from ds_lint.smoke.records.fsdp import FsdpEvidence
    from ds_lint.smoke.records.job import Evidence, Job

_OF_WORLD = r"accelerate/(parallelism_config|accelerator|state)\.py|torch/distributed/device_mesh\.py"


class FsdpWorld(Record):
    """A simulated world: ``job`` is that of its two ranks, ``trained`` is the evidence of the run on a few ranks."""

    job: Job
    expectation: FsdpExpectation
    trained: Evidence

    @property
    def ranks(self) -> int:
        """The user's world size."""
        return self.job.world_size


def real_ranks(config: Config, launch: AccelerateLaunch) -> int | None:
    """The user's world size: as it is given, or the ``num_processes`` of the file; None if it is not known."""
    return config.world_size or _number(launch, "num_processes")


def expectation_of(config: Config, launch: AccelerateLaunch, ranks: int) -> FsdpExpectation:
    """What the file asks for on so many ranks."""
    nodes = config.facts.nodes
    if nodes is None and _number(launch, "num_processes") == ranks:
        nodes = _number(launch, "num_machines")
    return FsdpExpectation(launch, ranks, nodes or max(1, ranks // RANKS_OF_NODE))


def _number(launch: AccelerateLaunch, name: str) -> int | None:
    """A number that is written in the file."""
    value = launch.value(name)
    is_written = launch.setting(name).path is not None
    return value if is_written and isinstance(value, int) and not isinstance(value, bool) else None


def world_of(job: Job, expectation: FsdpExpectation, trained: Evidence) -> FsdpWorld:
    """The simulation with the job of the run on a few ranks, changed to what it is for that many."""
    ranks = expectation.ranks
    simulated = job.but(world_size=ranks, mode=FAKE, part=WORLD, ranks_of_node=min(ranks, expectation.ranks_of_node))
    return FsdpWorld(simulated, expectation, trained)


def refused(world: FsdpWorld, failed: Failure, key: str | None) -> Check | None:
    """The check of a file that does not fit the world size; None if the simulation was not possible."""
    where = failed.raised.where if failed.raised else ""
    if failed.stage is None or not re.search(_OF_WORLD, where):
        return None
    return Check(
        "world",
        "fail",
        key or ("parallelism_config" if world.expectation.has_degrees else world.expectation.strategy_key),
        f"{world.ranks:,} ranks",
        None,
        None,
        f"accelerate rejects the file on your {world.ranks:,} ranks: {failed.message}",
        f"The exception comes from {where}.",
    )


def verify(world: FsdpWorld, seen: list[Evidence]) -> list[Check]:
    """The shares of the simulated ranks."""
    expectation = world.expectation
    expected, observed, broken = [], [], None
    for one in seen:
        assert one.fsdp is not None and one.fsdp.holding is not None  # noqa: PT018, S101 - the rank has finished
        trained = fsdp_shares.trained_share(one.fsdp.holding, expectation.shard_ranks)
        states = {name: amount.elements for name, amount in one.fsdp.states.items()}
        expected.append(
            {"parameters": fsdp_shares.to_store(one.fsdp.holding, expectation.shard_ranks)}
            | dict.fromkeys(states, trained)
        )
        observed.append({"parameters": one.fsdp.holding.stored} | states)
        broken = broken or _broken(world, one.rank, one.fsdp, trained)
    return [
        Check(
            "world-shares",
            "pass" if broken is None else "fail",
            expectation.strategy_key,
            expected[0],
            observed[0],
            "elements",
            broken or _sentence(world, seen),
        )
    ]


def _broken(world: FsdpWorld, rank: int, seen: FsdpEvidence, trained: int) -> str | None:
    """In words, what a rank keeps that is not its share."""
    assert seen.holding is not None  # noqa: S101 - the rank has finished
    shard_ranks = world.expectation.shard_ranks
    assert world.trained.fsdp is not None and world.trained.fsdp.holding is not None  # noqa: PT018, S101 - it has trained
    if not seen.holding.units or (seen.holding.outside and not world.trained.fsdp.holding.outside):
        name = seen.holding.outside[0].name if seen.holding.outside else "its parameters"
        return f"rank {rank:,} of your {world.ranks:,} keeps {name} whole, in no unit"
    for unit in seen.holding.units:
        if unit.place != rank % shard_ranks:
            name = fsdp_shares.unit_name(unit)
            return f"rank {rank:,} has part {unit.place:,} of {name}, not {rank % shard_ranks:,}"
    if (words := next(fsdp_shares.wrong_shares(rank, seen.holding, shard_ranks), None)) is not None:
        return words
    return next(
        (
            f"rank {rank:,} of your {world.ranks:,} holds {amount.elements:,} elements of {name}, but its share is "
            f"{trained:,}"
            for name, amount in seen.states.items()
            if amount.elements != trained
        ),
        None,
    )


# ------------------------------------------------------------------------------------------------------------- in bytes


def held_of(world: FsdpWorld, seen: Evidence) -> dict[str, Held]:
    """What a rank keeps by kind, in the dtypes of the run on a few ranks; gradients are computed."""
    assert seen.fsdp is not None and seen.fsdp.holding is not None  # noqa: PT018, S101 - the rank has finished
    elements = {
        "parameters": seen.fsdp.holding.stored,
        "gradients": fsdp_shares.trained_share(seen.fsdp.holding, world.expectation.shard_ranks),
        **{name: amount.elements for name, amount in seen.fsdp.states.items()},
    }
    sizes = {kind: amount.bytes // amount.elements for kind, amount in world.trained.held.items() if amount.elements}
    return {kind: Held(number, number * sizes[kind]) for kind, number in elements.items() if kind in sizes}


def _sentence(world: FsdpWorld, seen: list[Evidence]) -> str:
    """What the ranks hold, in bytes if the model is the user's."""
    copies = world.ranks // world.expectation.shard_ranks
    shared = f"; {world.expectation.shard_ranks:,} ranks share each of {copies:,} copies" if copies > 1 else ""
    if world.job.model is None:
        sentence = f"the first and the last of your {world.ranks:,} ranks hold exactly their shares of a small model"
        return f"{sentence}{shared}; pass --model for the bytes of your model"
    first, last = (by_kind(held_of(world, one)) for one in seen)
    parts = ", ".join(
        f"{in_units(amount.bytes)} of {kind}{' (computed)' if kind == 'gradients' else ''}"
        for kind, amount in first.items()
    )
    total, of_last = (sum(amount.bytes for amount in held.values()) for held in (first, last))
    who = f"each of your {world.ranks:,} ranks" if total == of_last else f"rank 0 of your {world.ranks:,} ranks"
    others = "" if total == of_last else f"; the last rank holds {in_units(of_last)}"
    return f"{who} holds {in_units(total)} of model states: {parts}{others}{shared}"

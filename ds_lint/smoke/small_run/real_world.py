"""The user's real world size, checked with two simulated ranks: batch sizes, groups, and shares."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import FAKE, Adaptation, Check, Held
from ds_lint.facts.host import free_memory
from ds_lint.output.quantities import in_units
from ds_lint.output.smoke import by_kind
from ds_lint.record import Record
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.smoke.expected.adaptation import of_adapters
from ds_lint.smoke.expected.expectation import ZERO, Batch, as_dict, ranks_of_a_copy, ranks_of_a_tensor
from ds_lint.smoke.expected.partitions import partition
from ds_lint.smoke.records.job import WORLD
from ds_lint.smoke.verify.check import skipped
from ds_lint.smoke.verify.shares import expected_shares, has_plain_states, layout_of, persistent, states_of
from ds_lint.source.tree import plain

if TYPE_CHECKING:
    from ds_lint.smoke.expected.adaptation import Changes
    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.smoke.records.failure import Failure
    from ds_lint.smoke.records.job import Evidence, FullSize, Job, TrainedParameter

_PORTION = 0.25  # of the free memory, for each of two ranks: other programs may need the rest
_MOST_MEMORY = 4 * 2**30  # bytes of a rank: to fill more takes too long
_WHOLE = "parameters that stay whole"
RANKS_OF_NODE = 8  # if the number of nodes is unknown
_HPZ, _MICS = (ZERO, "zero_hpz_partition_size"), (ZERO, "mics_shard_size")
_BATCH = tuple((name,) for name in BATCH_SIZES)
# Where DeepSpeed raises if a config does not fit the world size, and the keys that this is about.
_OF_WORLD = (
    (r"deepspeed/runtime/config\.py:\d+ (_batch_assertion|_set_batch_related_parameters)$", _BATCH),
    (r"deepspeed/elasticity/", (("elasticity",),)),  # until it was dropped
    (r"deepspeed/utils/groups\.py|mics_utils\.py|deepspeed/runtime/zero/utils\.py", (_HPZ, _MICS, (ZERO, "stage"))),
)


class World(Record):
    """A simulated world: ``job`` is that of its two ranks, ``trained`` is the evidence of the run on a few ranks."""

    job: Job
    expectation: Expectation
    changes: Changes
    trained: Evidence

    @property
    def ranks(self) -> int:
        """The user's world size."""
        return self.job.world_size

    @property
    def sharing(self) -> int:
        """The number of ranks that share the model states."""
        return int(self.expectation.number(*_MICS) or 0) or self.ranks

    @property
    def adaptations(self) -> list[Adaptation]:
        """What the simulated ranks change in the config."""
        given = self.changes.adaptations
        found = [one for one in given if one.key and not one.key.startswith("--")]
        if self.job.script is not None:
            found += [one for one in given if one.key is None]
        if self.job.has_adapters:
            found.append(of_adapters(self.job.sizes))
        scheduler = self.expectation.config.written.get("scheduler")
        if self.job.stack != "deepspeed" and scheduler is not None:
            found.append(
                Adaptation(
                    "scheduler",
                    plain(scheduler),
                    None,
                    "the simulated ranks make no step, and the scheduler is not sharded",
                )
            )
        return found


def world_of(job: Job, expectation: Expectation, changes: Changes, trained: Evidence, ranks: int) -> World:
    """The simulation of this many ranks, after a run of ``job`` on a few ranks has shown that the config works."""
    engine = trained.engine
    assert engine is not None  # noqa: S101 - a run that finished has evidence
    is_prepared = job.stack != "deepspeed"
    is_as_requested = (
        expectation.stage is not None
        and expectation.stage.value == engine.stage
        and ranks_of_a_copy(expectation.final) == 1
    )
    dtypes = trained.dtypes.get("parameters", [])
    nodes = expectation.config.facts.nodes
    simulated = job.but(
        text=_final_text(expectation) if is_prepared else job.text,
        world_size=ranks,
        mode=FAKE,
        part=WORLD,
        edits=changes.edits if not is_prepared else [],
        optimizer=expectation.optimizer_of_script,
        decays_apart=job.stack == "trainer" and expectation.optimizer is None,
        stage=engine.stage,
        dtype=dtypes[0] if len(dtypes) == 1 else "float32",
        accumulates_apart=trained.dtypes.get("gradients", dtypes) != dtypes,
        makes_states=is_as_requested and engine.stage > 0 and _makes_states(expectation),
        memory=_memory() if is_as_requested and len(dtypes) == 1 and not job.has_adapters else None,
        ranks_of_node=max(1, ranks // nodes) if nodes else min(ranks, RANKS_OF_NODE),
    )
    return World(simulated, expectation, changes, trained)


def _final_text(expectation: Expectation) -> str:
    """The config as the stack passes it to DeepSpeed, without a schedule, which needs the number of steps."""
    return json.dumps({name: value for name, value in as_dict(expectation.final).items() if name != "scheduler"})


def _makes_states(expectation: Expectation) -> bool:
    """Whether the optimizer creates states for its share only, in memory."""
    is_on_nvme = expectation.optimizer_offload is not None and expectation.optimizer_offload.value == "nvme"
    return has_plain_states(expectation) and not is_on_nvme


def _memory() -> int:
    free = free_memory()
    return min(_MOST_MEMORY, int(free * _PORTION)) if free is not None else 0


# ----------------------------------------------------------------------------------------------------------- verifying


def refused(world: World, failed: Failure) -> Check | None:
    """The check of a config that does not fit the world size; None if the simulation was not possible."""
    if failed.stage is None:
        return None
    where = failed.raised.where if failed.raised else ""
    for place, paths in _OF_WORLD:
        if re.search(place, where):
            key = next((key for path in paths if (key := world.expectation.key(*path)) is not None), None)
            return Check(
                "world",
                "fail",
                key,
                f"{world.ranks:,} ranks",
                None,
                None,
                f"DeepSpeed rejects the config on your {world.ranks:,} ranks: {failed.message}",
                f"The exception comes from {where}.",
            )
    return None


def verify(world: World, seen: list[Evidence]) -> list[Check]:
    """Batch sizes and shares of the simulated ranks."""
    return [_batch(world, seen[0]), *_shares(world, seen)]


def _batch(world: World, seen: Evidence) -> Check:
    engine, requested_batch = seen.engine, world.expectation.batch(world.ranks)
    assert engine is not None  # noqa: S101 - a rank that finished has evidence
    copies = ranks_of_a_copy(world.expectation.final)
    if world.ranks % copies:
        return Check(
            "world",
            "fail",
            world.expectation.key("sequence_parallel_size") or world.expectation.key("tensor_parallel"),
            f"groups of {copies} ranks",
            engine.train_batch_size,
            "samples a step",
            f"{world.ranks:,} ranks are not a multiple of the {copies} ranks that share each copy of the model",
            f"Start a multiple of {copies} ranks. The engine takes steps of {engine.train_batch_size:g} samples.",
        )
    # With sequence parallelism the engine has them as floats; it counts a sample for each rank that shares its tensors.
    samples = engine.train_batch_size // ranks_of_a_tensor(world.expectation.final)
    observed = Batch(*map(int, (samples, engine.micro_batch_size, engine.accumulation_steps)))
    keys = (world.expectation.key(name) for name in (*BATCH_SIZES, "elasticity"))
    is_kept = requested_batch is None or observed == requested_batch
    message = f"on your {world.ranks:,} ranks a step takes {observed.in_words(world.ranks)} samples"
    if requested_batch is not None and not is_kept:
        message += f", but the config asks for {requested_batch.in_words(world.ranks)}"
    return Check(
        "world",
        "pass" if is_kept else "fail",
        next((key for key in keys if key is not None), None),
        requested_batch.train if requested_batch is not None else None,
        observed.train,
        "samples a step",
        message,
    )


def _shares(world: World, seen: list[Evidence]) -> list[Check]:
    """What the ranks hold, to the element, and what that is in bytes for the user's own model."""
    expectation, stage = world.expectation, world.job.stage
    if expectation.stage is None:
        return []
    if expectation.stage.value != stage:
        requested = f"`{expectation.stage.key}` asks for stage {expectation.stage.value}"
        message = f"the engine runs ZeRO stage {stage} here too, but {requested}"
        return [Check("stage", "fail", expectation.stage.key, expectation.stage.value, stage, None, message)]
    key, full = expectation.stage.key, seen[0].full_size
    if (copies := ranks_of_a_copy(expectation.final)) > 1:
        why = f"{copies} ranks share each copy of the model, so shares are not checked"
        return [skipped("world-shares", key, why)]
    if stage == 0:
        if full is None:
            return []
        held = {kind: amount.elements for kind, amount in seen[0].held.items() if amount.elements}
        return [Check("world-shares", "pass", key, None, held, "elements", _sentence(world, full), adapted=True)]
    expected = _expected(world, seen[0])
    observed = [_observed(one, expected) for one in seen]
    wrong = [(one.rank, held) for one, held in zip(seen, observed, strict=True) if held != expected]
    message = _sentence(world, full)
    if wrong:
        rank, held = wrong[0]
        kind = next(kind for kind in expected if held[kind] != expected[kind])
        message = (
            f"rank {rank:,} of your {world.ranks:,} holds {held[kind]:,} elements of {kind}, not {expected[kind]:,} as "
            f"at stage {stage}"
        )
    status = "fail" if wrong else "pass"
    held = wrong[0][1] if wrong else observed[0]
    is_adapted = full is not None and not full.is_built
    return [Check("world-shares", status, key, expected, held, "elements", message, adapted=is_adapted)]


def _expected(world: World, seen: Evidence) -> dict[str, int]:
    """The elements that the engine should hold of the model that was built."""
    states = states_of(seen) if world.job.makes_states else []
    expected = expected_shares(world.expectation, seen.parameters, states, world.sharing)
    whole = _kept_whole(world, seen.parameters)
    return expected | ({_WHOLE: whole} if whole is not None else {})


def _observed(seen: Evidence, expected: dict[str, int]) -> dict[str, int]:
    held = {kind: seen.held.get(kind, Held(0, 0)).elements for kind in expected}
    return held | {kind: seen.persistent_elements for kind in expected if kind == _WHOLE}


def _kept_whole(world: World, parameters: list[TrainedParameter]) -> int | None:
    """Elements below the threshold, which every rank keeps whole; None if there is no threshold."""
    threshold = world.expectation.threshold.value
    if world.job.stage != 3 or threshold is None:
        return None
    return persistent([parameter.elements for parameter in parameters], threshold, world.expectation.model_threshold)


# ------------------------------------------------------------------------------------------------------------- in bytes


def _sentence(world: World, full: FullSize | None) -> str:
    """What a rank holds of the user's model, in bytes, and how the number was found."""
    if full is None:
        what = "a small model with adapters" if world.job.has_adapters else "a small model"
        sentence = f"the first and the last of your {world.ranks:,} ranks hold exactly their shares of {what}"
        return sentence if world.job.has_adapters else f"{sentence}; pass --model for the bytes of your model"
    held = by_formula(world, full)
    if not held:
        return f"each of your {world.ranks:,} ranks keeps its share of the model states on NVMe"
    parts = [
        f"{in_units(amount.bytes)} of {kind}{' (computed)' if kind == 'gradients' and full.is_built else ''}"
        for kind, amount in by_kind(held).items()
    ]
    total = in_units(sum(amount.bytes for amount in held.values()))
    sentence = f"each of your {world.ranks:,} ranks holds {total} of model states: {', '.join(parts)}"
    if not has_plain_states(world.expectation):
        sentence += f", plus the states of {world.expectation.optimizer}"
    extra = [
        f"{elements:,} elements {words}"
        for elements, words in (
            (_kept_whole(world, full.parameters) or 0, "that stay whole"),
            (_second_copies(world, full.parameters), f"that {_HPZ[1]} keeps a second time"),
        )
        if elements and "parameters" in held
    ]
    if extra:
        sentence += f"; the parameters include {' and '.join(extra)}"
    if not full.is_built:
        sentence += f" (computed: {_why_computed(world, full)})"
    return sentence


def _why_computed(world: World, full: FullSize) -> str:
    if world.job.stage == 0:
        return "stage 0 shards nothing"
    needed, most = in_units(full.needed_bytes), in_units(world.job.memory or 0)
    return f"such a rank needs {needed}, but the limit on this machine is {most}"


def by_formula(world: World, full: FullSize) -> dict[str, Held]:
    """What each rank holds of the user's model by kind, in the dtypes of the run on a few ranks.

    If the engine was built with that model, the check compared it with these numbers.
    """
    stage = world.job.stage
    whole = sum(parameter.elements for parameter in full.parameters)
    states = states_of(world.trained) if has_plain_states(world.expectation) else []
    if stage == 0:
        elements = dict.fromkeys(["parameters", "gradients", "master weights", *states], whole)
    else:
        elements = expected_shares(world.expectation, full.parameters, states, world.sharing)
        trainable = [parameter for parameter in full.parameters if parameter.is_trainable]
        # Stage 1 has all of them until a step is made.
        elements["gradients"] = (
            whole if stage == 1 else partition(trainable, stage, world.sharing, layout_of(world.expectation))
        )
        if "parameters" in elements:
            beside = _kept_whole(world, full.parameters) or 0
            elements["parameters"] += beside + _second_copies(world, full.parameters)
    sizes = {kind: amount.bytes / amount.elements for kind, amount in world.trained.held.items() if amount.elements}
    return {kind: Held(n, round(n * sizes[kind])) for kind, n in elements.items() if n and kind in sizes}


def _second_copies(world: World, parameters: list[TrainedParameter]) -> int:
    """Elements of the partitions within a group of ranks, which hpZ keeps in addition to those of all ranks.

    Source: ``_partition_param_sec`` in deepspeed/runtime/zero/partition_parameters.py.
    """
    group = min(int(world.expectation.number(*_HPZ) or 1), world.ranks)
    if world.job.stage != 3 or group < 2:
        return 0
    return sum(-(-parameter.elements // world.ranks) * world.ranks // group for parameter in parameters)

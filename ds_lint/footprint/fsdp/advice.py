"""What makes a run with FSDP fit: changes of its settings, from what costs the least time to what costs the most.

What likely fits and what surely does are two answers. Of each, all changes that suffice alone are given; if none does,
the first of the shortest combinations.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING

from ds_lint.footprint.advice import Advice
from ds_lint.footprint.changes import Price, SetupChange, Write, doubled
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.fsdp.sharding import ALONE, LAYERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeAlias

    from ds_lint.footprint.capacity import Bound, Capacity
    from ds_lint.footprint.fsdp.sharding import FsdpSharding
    from ds_lint.footprint.setup import TrainingSetup

    # The changes that a step can make of a setup, each of which takes less than the one before.
    FsdpStep: TypeAlias = Callable[[TrainingSetup, FsdpSharding], Iterator[SetupChange]]

_MOST_TIMES = 8  # as many ranks as there are
_LONGEST = 4  # steps of a combination


def advice(setup: TrainingSetup, capacity: Capacity) -> list[Advice]:
    """What makes a run likely fit, and then what makes it surely fit; nothing where it does already."""
    if setup.fsdp is None or not capacity.is_known or capacity.holds(now := estimate(setup)):
        return []
    found: list[Advice] = []
    bounds: tuple[Bound, ...] = ("likely", "most")
    for bound in bounds:
        if not capacity.holds(now, bound):
            found += _sufficient(setup, capacity, bound)
    sure = {one.words: one for one in found if one.is_sure}
    return [*(one for one in found if one.words not in sure), *sure.values()]


def _sufficient(setup: TrainingSetup, capacity: Capacity, bound: Bound) -> list[Advice]:
    """All changes that suffice alone; if none does, the first of the shortest combinations."""
    for length in range(1, _LONGEST + 1):
        found = []
        for steps in combinations(STEPS, length):
            changes = _enough(setup, steps, partial(_holds, capacity, bound))
            if changes:
                needed = estimate(changes[-1].setup)
                found.append(Advice(tuple(changes), needed, capacity.holds(needed)))
                if length > 1:
                    return found
        if found:
            return found
    return []


def _holds(capacity: Capacity, bound: Bound, changed: TrainingSetup) -> bool:
    return capacity.holds(estimate(changed), bound)


def _enough(
    setup: TrainingSetup, steps: Sequence[FsdpStep], holds: Callable[[TrainingSetup], bool]
) -> list[SetupChange]:
    """The steps one after the other, the last only as far as it must; nothing if they do not suffice."""
    changes: list[SetupChange] = []
    for step in steps:
        assert setup.fsdp is not None  # noqa: S101 - of a run with FSDP
        possible = list(step(setup, setup.fsdp))
        if not possible:
            return []
        is_last = step is steps[-1]
        change = next((one for one in possible if holds(one.setup)), None) if is_last else possible[-1]
        if change is None:
            return []
        changes.append(change)
        setup = change.setup
    return changes


def _settings(
    setup: TrainingSetup, words: str, sharding: FsdpSharding, *writes: tuple[str, object], price: Price | None = None
) -> SetupChange:
    """A change of settings of FSDP."""
    written = tuple(Write("config", name, value) for name, value in writes)
    return SetupChange(words, setup._replace(fsdp=sharding), written, (price,) if price is not None else ())


def _loading_once(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Only one rank of a node reads the weights, and sends them to the others."""
    if not sharding.loads_once and setup.ranks_per_node > 1 and sharding.version == 1:
        changed = sharding._replace(loads_once=True)
        writes = ("fsdp_cpu_ram_efficient_loading", True), ("fsdp_sync_module_states", True)
        yield _settings(setup, "weights loaded by one rank of each node", changed, *writes)


def _sharded_checkpoints(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """No rank gathers the model; ``accelerate merge-weights`` makes one file of the shards."""
    if sharding.saves_whole:
        setting = ("fsdp_state_dict_type", "SHARDED_STATE_DICT")
        price = Price("saving", "shards are saved, which accelerate merge-weights makes one file of")
        yield _settings(setup, "sharded checkpoints", sharding._replace(saves_whole=False), setting, price=price)


def _checkpointing(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Activations are computed again in the backward pass; not for units that the policy of peft makes with FSDP 2."""
    if setup.is_checkpointed or (sharding.adapters_alone and sharding.version == 2):
        return
    where = Write("config", "fsdp_activation_checkpointing", True)
    price = Price("speed", "the forward pass is computed again, about a third more time")
    yield SetupChange("activation checkpointing", setup._replace(is_checkpointed=True), (where,), (price,))


def _layers(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Without a policy the whole model is one unit, which is gathered at once."""
    if sharding.policy == ALONE:
        setting = ("fsdp_auto_wrap_policy", LAYERS)
        price = Price("speed", "each layer is gathered and reduced by itself")
        yield _settings(setup, "a unit for each layer", sharding._replace(policy=LAYERS), setting, price=price)


def _resharding(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Parameters are freed after the forward pass, and gathered once more; then sharded over all ranks."""
    freed = sharding._replace(reshards=True, strategy="FULL_SHARD")
    price = Price("speed", "parameters are gathered once more, in the backward pass")
    if sharding.version == 2 and not sharding.reshards:
        words = "parameters freed after the forward pass"
        yield _settings(setup, words, freed, ("fsdp_reshard_after_forward", True), price=price)
    if sharding.version == 2 or sharding.strategy == "FULL_SHARD":
        return
    if sharding.strategy == "HYBRID_SHARD_ZERO2":
        hybrid = freed._replace(strategy="HYBRID_SHARD")
        yield _settings(setup, "HYBRID_SHARD", hybrid, ("fsdp_sharding_strategy", "HYBRID_SHARD"), price=price)
    over_all = freed._replace(shards=None, by_node=False)
    yield _settings(setup, "FULL_SHARD", over_all, ("fsdp_sharding_strategy", "FULL_SHARD"), price=price)


def _sync_each_batch(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Gradients are reduced after each micro batch, instead of staying whole until the last one."""
    if setup.accumulation_steps < 2 or sharding.syncs_each_batch:
        return
    changed = setup._replace(fsdp=sharding._replace(syncs_each_batch=True))
    if setup.stack == "trainer":
        given = '\'{"gradient_accumulation_kwargs": {"sync_each_batch": true}}\''
        where = Write("arguments", "accelerator_config", given)
    else:
        where = Write("script", "GradientAccumulationPlugin(..., sync_each_batch=True)", None)
    price = Price("speed", f"gradients are reduced {setup.accumulation_steps} times in a step instead of once")
    yield SetupChange("gradients reduced after each micro batch", changed, (where,), (price,))


def _offload(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    if not sharding.offloads:
        there = sharding._replace(offloads=True)
        price = Price("speed", "the CPU makes the step, and weights and gradients cross PCIe in each pass")
        yield _settings(setup, "offload to the CPU", there, ("fsdp_offload_params", True), price=price)


def _without_offload(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """What is not offloaded takes no host memory."""
    if sharding.offloads:
        yield _settings(setup, "no offload", sharding._replace(offloads=False), ("fsdp_offload_params", False))


def _smaller_micro_batch(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Half, a quarter and so on, with more accumulation steps, so that the batch size stays."""
    size, now = (setup.micro_batch or 1) // 2, setup.micro_batch or 1
    while size >= 1:
        steps = setup.accumulation_steps * -(-now // size)
        if setup.stack == "trainer":
            writes = (
                Write("arguments", "per_device_train_batch_size", size),
                Write("arguments", "gradient_accumulation_steps", steps),
            )
        else:
            writes = (
                Write("script", f"batch_size={size}", None),
                Write("script", f"gradient_accumulation_steps={steps}", None),
            )
        yield SetupChange(
            f"micro batch {size} instead of {now}",
            setup._replace(micro_batch=size, accumulation_steps=steps),
            writes,
            (Price("speed", f"{steps} smaller micro batches in a step instead of {setup.accumulation_steps}"),),
        )
        size //= 2


def _more_ranks(setup: TrainingSetup, sharding: FsdpSharding) -> Iterator[SetupChange]:
    """Twice, four times and eight times as many."""
    if sharding.strategy != "NO_SHARD":
        yield from doubled(setup, setup.world * _MOST_TIMES)


STEPS: tuple[FsdpStep, ...] = (
    _sharded_checkpoints,
    _loading_once,
    _checkpointing,
    _layers,
    _resharding,
    _sync_each_batch,
    _smaller_micro_batch,
    _offload,
    _without_offload,
    _more_ranks,
)

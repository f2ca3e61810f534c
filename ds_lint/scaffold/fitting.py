"""The fastest config that fits: the first in the order of speed that the GPUs and the hosts surely hold.

What is estimated is the config that is written, as its stack prepares it, with activation checkpointing unless the
user does without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts import training
from ds_lint.footprint import setup
from ds_lint.footprint.capacity import capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.sweep import COMBINATIONS
from ds_lint.scaffold import composition
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts import Facts
    from ds_lint.footprint.capacity import Bound
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.scaffold.composition import Purpose

_LARGEST_MICRO_BATCH = 64  # beyond which a GPU computes hardly faster

# Stage, offload, and whether the parameters stay: each is slower than the one before. With offload, stage 2 takes less
# than stage 1 and is as fast.
_BY_SPEED = tuple(
    (one.stage, one.device or "none", "param" not in one.offload)
    for one in COMBINATIONS
    if not (one.stage == 1 and one.offload)
)


class Fitting(NamedTuple):
    """A config to write, with what its run takes; ``is_sure`` if the most fits, else what is likely does."""

    purpose: Purpose
    micro_batch: int
    estimate: Estimate
    is_sure: bool
    is_checkpointed: bool = True


def fastest(purpose: Purpose, facts: Facts, knowledge: Knowledge) -> Fitting | None:
    """The fastest config that fits, with the largest micro batch unless the facts have one; None if none fits.

    A config that only likely fits is taken if none surely does.
    """
    there = capacity(facts)
    candidates = list(_candidates(purpose))
    bounds: tuple[Bound, ...] = ("most", "likely")
    for bound in bounds:
        for candidate in candidates:
            found = None
            for size in _micro_batches(facts):
                needed = _estimate(candidate, size, facts, knowledge)
                if needed is None or not there.holds(needed, bound):
                    break
                found = Fitting(
                    candidate._replace(micro_batch=size), size, needed, bound == "most", _checkpoints(facts)
                )
            if found is not None:
                return found
    return None


def counts_activations(found: Fitting) -> bool:
    """Whether the estimate includes activations."""
    return "activations" in found.estimate.parts


def _candidates(purpose: Purpose) -> Iterator[Purpose]:
    for stage, offload, keeps_parameters in _BY_SPEED:
        candidate = purpose._replace(stage=stage, offload=offload, keeps_parameters=keeps_parameters)
        if composition.refusal(candidate) is None:
            yield candidate


def _micro_batches(facts: Facts) -> list[int]:
    """The sizes to try; without the length of the sequences it makes no difference."""
    if facts.micro_batch is not None:
        return [facts.micro_batch]
    if facts.sequence_length is None:
        return [1]
    return [1 << power for power in range(_LARGEST_MICRO_BATCH.bit_length())]


def _estimate(purpose: Purpose, micro_batch: int, facts: Facts, knowledge: Knowledge) -> Estimate | None:
    """What a run with the config takes; None if the model is not known well enough."""
    facts = facts.copy()
    facts.micro_batch = micro_batch
    if purpose.stack == "trainer":
        flags = _trainer_flags(purpose, micro_batch, is_checkpointed=_checkpoints(facts))
        facts.training = training.arguments_of(" ".join(flags))
    config = configs.from_dict(composition.config(purpose), Basis(knowledge, purpose.stack, facts))
    wanted = setup.of(config)
    return estimate(wanted._replace(is_checkpointed=_checkpoints(facts))) if wanted is not None else None


def _checkpoints(facts: Facts) -> bool:
    return facts.activation_checkpointing is not False


def _trainer_flags(purpose: Purpose, micro_batch: int, *, is_checkpointed: bool) -> list[str]:
    """The training arguments that go with a config."""
    flags = [f"--per_device_train_batch_size {micro_batch}", f"--gradient_checkpointing {is_checkpointed}"]
    return [f"--{purpose.precision} True", *flags] if purpose.precision != "fp32" else flags

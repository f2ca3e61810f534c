"""The arithmetic of the steps: the samples, the gradients, the fp32 weights and the live weights of a reference run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected.documented_optimizer import NoReference, update_rule
from ds_lint.smoke.expected.expectation import ZERO, Expectation, Requested
from ds_lint.smoke.records.failure import Failure
from ds_lint.smoke.verify.check import OF_TOLERANCE, SmallRun, checked, skipped
from ds_lint.smoke.verify.precision import dtypes, is_scaled
from ds_lint.smoke.verify.steps import clipping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.records.comparison import FarthestElement
    from ds_lint.smoke.records.job import Deviation, Reference

_DIVISORS = ("gradient_predivide_factor", "prescale_gradients")  # that gradients are divided by
SAMPLES, AVERAGING, UPDATE, WEIGHTS = "samples", "averaging", "update", "weights"


def arithmetic(expectation: Expectation, run: SmallRun) -> Iterator[Check]:
    """The steps of the run, compared with those of one process of plain torch."""
    found = run.reference
    if isinstance(found, NoReference):
        for name in (SAMPLES, AVERAGING, UPDATE, WEIGHTS):
            yield skipped(name, found.key, found.why)
        return
    if isinstance(found, Failure):
        why = f"the reference run did not finish: {found.message}"
        yield Check(UPDATE, "error", expectation.key("optimizer"), None, None, None, why)
        return
    if not all(math.isfinite(step.loss) for one in run.train for step in one.steps):
        for name in (SAMPLES, AVERAGING, UPDATE, WEIGHTS):
            yield skipped(name, None, "the loss is not finite, so there is nothing to compare")
        return
    yield _samples(expectation, run, found)
    if expectation.stage is not None and expectation.stage.value != run.engine.stage:
        why = f"the engine runs ZeRO stage {run.engine.stage}, and the reference run does what stage "
        for name in (AVERAGING, UPDATE, WEIGHTS):
            yield skipped(name, expectation.stage.key, f"{why}{expectation.stage.value} does")
        return
    if found.begin is not None:
        yield from _other_begin(expectation, run, found.begin)
        return
    yield _averaging(expectation, run, found)
    yield _update(expectation, run, found)
    yield _weights(expectation, run, found)


def _samples(expectation: Expectation, run: SmallRun, found: Reference) -> Check:
    wanted = "other samples in each step" + " and on each rank" * (run.world_size > 1)
    passes = sum(len(step) for one in run.train for step in one.samples)
    return checked(
        SAMPLES,
        Requested(wanted, expectation.key("train_batch_size")),
        found.samples or f"no sample twice in {passes:,} forward passes",
        found.samples is None,
        kept="no sample of the data is trained on twice" + ", by whichever rank" * (run.world_size > 1),
        broken=f"{found.samples}: the training has fewer samples than it counts",
    )


def _other_begin(expectation: Expectation, run: SmallRun, why: str) -> Iterator[Check]:
    """Ranks that begin with another model: its steps are not compared with those of the model's definition."""
    key = expectation.dtype.key or expectation.key(ZERO, "stage")
    has_failed = any(check.status == "fail" for check in dtypes(expectation, run))
    for name in (AVERAGING, UPDATE):
        yield skipped(name, key, why)
    if has_failed:
        yield skipped(WEIGHTS, key, why)
        return
    yield Check(WEIGHTS, "fail", key, "the model as it is defined", "another one", None, why)


def _averaging(expectation: Expectation, run: SmallRun, found: Reference) -> Check:
    written = (expectation.key(name) for name in _DIVISORS)
    key = next(filter(None, (*written, expectation.key(ZERO, "stage"))), None)
    if not is_scaled(run):
        return skipped(
            AVERAGING, key, "the loss is not multiplied by the loss scale, so the gradients are not compared"
        )
    if any(check.status == "fail" for check in clipping(expectation, run)) and found.averaging is not None:
        return skipped(AVERAGING, key, "gradients are not clipped as requested, so they are not compared")
    if found.unseen is not None and found.averaging is None:
        return skipped(AVERAGING, key, found.unseen)
    if not found.made and found.averaging is None:
        return skipped(AVERAGING, key, "DeepSpeed made no step, so there are no gradients to compare")
    return _check(
        AVERAGING,
        Requested("the average over ranks and micro steps", key),
        found,
        found.averaging,
        kept="the gradients of {} are the average over ranks and micro steps",
        broken="the gradients of step {} are not the average over ranks and micro steps",
    )


def _update(expectation: Expectation, run: SmallRun, found: Reference) -> Check:
    rule = update_rule(expectation, run.accelerate_script)
    if isinstance(rule, NoReference):
        return skipped(UPDATE, rule.key, rule.why)
    name, key = rule.name, expectation.key("optimizer", "type") or expectation.key("optimizer")
    if not found.made:
        return skipped(UPDATE, key, "DeepSpeed made no step, so there is nothing to compare")
    return _check(
        UPDATE,
        Requested(f"the fp32 weights of {name} as documented", key),
        found,
        found.update,
        kept=f"{{}} of {name} give the fp32 weights of its documented arithmetic"
        + (" after a step with zero gradients, which DeepSpeed makes first without ZeRO" * found.starts_with_zeros),
        broken=f"step {{}} gives other fp32 weights than the documented arithmetic of {name}",
    )


def _weights(expectation: Expectation, run: SmallRun, found: Reference) -> Check:
    difference = found.weights
    dtype = str(expectation.dtype.value)
    return checked(
        WEIGHTS,
        Requested("the fp32 weights, rounded", expectation.dtype.key or expectation.key(ZERO, "stage")),
        f"{0 if difference is None else difference.elements:,} other elements",
        difference is None,
        kept=f"after each of {found.steps} steps, the ranks compute with the fp32 weights of that step, in {dtype}",
        broken=""
        if difference is None
        else f"step {difference.step} {difference.words}"
        if difference.is_event
        else f"after step {difference.step}, rank {difference.observed:.0f} computes with other weights than the fp32 "
        f"weights of that step, rounded to {dtype}",
        help="" if difference is None or difference.is_event else f"{difference.parameter} is one of them.",
    )


def _check(
    id: str, requested: Requested, found: Reference, difference: Deviation | None, *, kept: str, broken: str
) -> Check:
    """A check of numbers, with the largest difference as a share of its tolerance."""
    steps = f"{found.made} step{'s' * (found.made != 1)}"
    share = found.largest.get(id, 0.0)
    return checked(
        id,
        requested,
        share if difference is None else difference.observed,
        difference is None,
        unit=OF_TOLERANCE if difference is None else None,
        kept=f"{kept.format(steps)}; the largest difference is {share:.2g} of its tolerance",
        broken=""
        if difference is None
        else f"step {difference.step} {difference.words}"
        if difference.is_event
        else broken.format(difference.step) + f": {difference.words}" * bool(difference.words),
        help="" if difference is None or difference.expected == difference.observed else element(difference),
    )


def element(found: Deviation | FarthestElement) -> str:
    """Which element differs, and by how much."""
    what = f"An element of {found.parameter}" if found.parameter else "Their norm"
    return f"{what} is {found.observed:.9g}, not {found.expected:.9g} (tolerance {found.tolerance:.2g})."

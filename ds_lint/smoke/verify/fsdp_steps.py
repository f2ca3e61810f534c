"""The steps of a run with FSDP: losses, batches, clipping, and the arithmetic, compared with plain torch."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected.documented_optimizer import NoReference
from ds_lint.smoke.expected.expectation import Requested
from ds_lint.smoke.records.failure import Failure
from ds_lint.smoke.verify.check import OF_TOLERANCE, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.fsdp_expectation import FsdpExpectation
    from ds_lint.smoke.records.job import Deviation, Reference
    from ds_lint.smoke.verify.fsdp_run import ShardedRun

_CLIPPED = 1e-3  # relative, of a norm that a library clips to in single precision
_ARITHMETIC = ("samples", "averaging", "update", "weights")


def start(_expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The libraries reach the last step, and no step is skipped."""
    wanted = run.steps + run.steps_after
    made = [sum(not step.is_skipped for step in one.steps) for one in run.train]
    yield Check(
        "start",
        "pass" if made == [wanted] * len(made) else "fail",
        None,
        wanted,
        "train" if made != [wanted] * len(made) else min(made),
        "steps",
        f"each rank makes {wanted} steps"
        if made == [wanted] * len(made)
        else f"a rank makes {min(made)} of {wanted} steps",
    )


def loss(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The loss of each rank in each step is a number."""
    bad = [
        (rank, number)
        for rank, one in enumerate(run.train)
        for number, step in enumerate(one.steps)
        if not math.isfinite(step.loss)
    ]
    yield Check(
        "loss",
        "fail" if bad else "pass",
        expectation.precision_key,
        "finite",
        run.train[bad[0][0]].steps[bad[0][1]].loss if bad else [step.loss for step in run.train[0].steps],
        None,
        f"the loss of rank {bad[0][0]} is not finite in step {bad[0][1] + 1}"
        if bad
        else f"the loss is finite on all {len(run.train)} ranks in all steps",
    )


def batch(_expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The samples of each forward pass, and the passes of a step."""
    wanted = [run.job.batch_size] * run.job.accumulation_steps
    found = [samples for one in run.train for samples in one.samples]
    wrong = next((samples for samples in found if samples != wanted), None)
    yield Check(
        "batch",
        "pass" if wrong is None else "fail",
        None,
        wanted,
        wrong or next(iter(found), None),
        "samples",
        f"each rank trains on {run.job.accumulation_steps} micro batches of {run.job.batch_size} samples in each step"
        if wrong is None
        else f"a step of a rank has micro batches of {', '.join(map(str, wrong)) or 'no'} samples, not "
        f"{run.job.accumulation_steps} of {run.job.batch_size}",
    )


def learning_rates(_expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The learning rate of each step: the loop has no schedule."""
    wanted = run.job.rate
    found = [rate for one in run.train for step in one.steps for rate in step.learning_rates]
    wrong = next((rate for rate in found if not math.isclose(rate, wanted)), None)
    yield Check(
        "learning-rate",
        "pass" if wrong is None else "fail",
        None,
        wanted,
        [rate for step in run.train[0].steps for rate in step.learning_rates] if wrong is None else wrong,
        None,
        f"each step has the learning rate {wanted:g} of the script"
        if wrong is None
        else f"a step has the learning rate {wrong:.7g}, but the script asks for {wanted:g}",
    )


def clipping(_expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The norm of the gradients of each step, from the shards of all ranks."""
    most = run.job.clipping
    if not most:
        return
    copies = max((unit.copies for unit in run.holdings[0].units), default=1)
    norms = [math.sqrt(sum(parts) / copies) for parts in zip(*(one.squared_norms for one in run.train), strict=False)]
    before = [step.gradient_norm for step in run.train[0].steps]
    wrong = [
        (number, norm)
        for number, (norm, whole) in enumerate(zip(norms, before, strict=False))
        if not math.isclose(norm, min(most, whole) if whole is not None else most, rel_tol=_CLIPPED)
    ]
    yield Check(
        "clipping",
        "fail" if wrong else "pass",
        None,
        f"a norm of at most {most:g}",
        wrong[0][1] if wrong else norms,
        None,
        f"step {wrong[0][0] + 1} uses a gradient of norm {wrong[0][1]:.4g}, but it is to be clipped to {most:g}"
        if wrong
        else f"the gradients of all ranks together are clipped to a norm of {most:g}",
    )


def arithmetic(expectation: FsdpExpectation, run: ShardedRun) -> Iterator[Check]:
    """The steps of the run, compared with those of one process of plain torch."""
    found = run.reference
    if isinstance(found, NoReference):
        yield from (skipped(name, found.key, found.why) for name in _ARITHMETIC)
        return
    if isinstance(found, Failure):
        why = f"the reference run did not finish: {found.message}"
        yield Check("update", "error", None, None, None, None, why)
        return
    key, steps = expectation.strategy_key, f"{found.made} step{'s' * (found.made != 1)}"
    yield Check(
        "samples",
        "pass" if found.samples is None else "fail",
        None,
        "other samples in each step of each rank",
        found.samples or f"no sample twice in {sum(len(step) for one in run.train for step in one.samples):,} passes",
        None,
        found.samples or "no sample comes twice, on any rank in any step",
    )
    yield _compared(
        "averaging",
        Requested("the average over ranks and micro steps", key),
        found,
        found.averaging,
        kept=f"the gradients of {steps} are the average over ranks and micro steps",
        broken="the gradients of step {} are not the average over ranks and micro steps",
    )
    yield _compared(
        "update",
        Requested("the weights of AdamW as documented", key),
        found,
        found.update,
        kept=f"{steps} of AdamW give the weights of its documented arithmetic",
        broken="step {} gives other weights than the documented arithmetic of AdamW",
    )
    wrong = found.weights
    yield Check(
        "weights",
        "pass" if wrong is None else "fail",
        expectation.precision_key,
        "the shards of all ranks, rounded",
        f"{0 if wrong is None else wrong.elements:,} other elements",
        None,
        f"after each step, the ranks compute with the shards of that step, in {run.job.compute_dtype or 'float32'}"
        if wrong is None
        else f"after step {wrong.step}, rank {wrong.observed:.0f} computes with other weights than the shards of that "
        f"step, rounded to {run.job.compute_dtype or 'float32'}",
        "" if wrong is None else f"{wrong.parameter} is one of them.",
    )


def _compared(
    id: str, requested: Requested, found: Reference, difference: Deviation | None, *, kept: str, broken: str
) -> Check:
    share = found.largest.get(id, 0.0)
    if difference is None:
        message = f"{kept}; the largest difference is {share:.2g} of its tolerance"
        return Check(id, "pass", requested.key, requested.value, share, OF_TOLERANCE, message)
    where = f"An element of {difference.parameter}" if difference.parameter else "Their norm"
    return Check(
        id,
        "fail",
        requested.key,
        difference.expected,
        difference.observed,
        None,
        broken.format(difference.step) + f": {difference.words}" * bool(difference.words),
        ""
        if difference.expected == difference.observed
        else f"{where} is {difference.observed:.9g}, not {difference.expected:.9g} "
        f"(tolerance {difference.tolerance:.2g}).",
    )

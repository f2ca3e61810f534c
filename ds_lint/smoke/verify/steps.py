"""What a step is made with: batch, learning rate and clipping."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.smoke.driver.expectation import (
    ZERO,
    Batch,
    Expectation,
    Promise,
    ranks_of_a_copy,
    ranks_of_a_tensor,
)
from ds_lint.smoke.verify import schedules
from ds_lint.smoke.verify.check import Runs, checked, skipped, spelling
from ds_lint.smoke.verify.precision import ROUNDED, is_scaled
from ds_lint.smoke.verify.shares import has_plain_states

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOLERANCE = 1e-6  # relative, of learning rates


def batch(asked: Expectation, runs: Runs) -> Iterator[Check]:
    """The samples of a step."""
    promised = asked.batch(runs.world_size)
    if promised is None:
        return
    observed = _batch_of_a_step(asked, runs)
    keys = [key for name in BATCH_SIZES if (key := asked.key(name)) is not None]
    key = next((key for key in keys if key in asked.written_as.values()), keys[0] if keys else None)
    ranks = asked.config.world_size
    real = f"; on your {ranks:,} ranks {runs.real_batch.in_words(ranks)}" if runs.real_batch and ranks else ""
    yield checked(
        "batch",
        Promise(promised.train, key),
        observed.train,
        observed == promised,
        unit="samples a step",
        kept=f"a step takes {observed.in_words(runs.world_size)} samples{real}",
        broken=f"a step takes {observed.in_words(runs.world_size)} samples, and the config asks for "
        f"{promised.in_words(runs.world_size)}",
        help=next(filter(None, (spelling(asked, Promise(None, asked.key(name))) for name in BATCH_SIZES)), ""),
        adapted=any("batch_size" in key or "accumulation" in key for key in runs.adapted),
    )


def _batch_of_a_step(asked: Expectation, runs: Runs) -> Batch:
    """What the model was given for the first step, counted in its forward passes."""
    passes = [one.samples[0] if one.samples else [] for one in runs.train]
    whole = sum(map(sum, passes)) // ranks_of_a_copy(asked.final)
    return Batch(whole, max(passes[0], default=0), len(passes[0]))


def learning_rates(asked: Expectation, runs: Runs) -> Iterator[Check]:
    """The learning rates of the steps against those that the config, or the training arguments, ask for."""
    steps = runs.train[0].steps
    observed = [step.learning_rates[0] for step in steps]
    if any(step.is_skipped for step in steps):
        key = asked.key("scheduler") or asked.key("optimizer", "params", "lr")
        yield skipped("learning-rate", key, "the schedule waits while steps are skipped")
        return
    if asked.config.stack == "trainer" and (asked.schedule is None or asked.asks_for_schedule):
        yield from _trainers_rates(asked, observed, runs.adapted)
        return
    if asked.optimizer is None or asked.optimizer.lower() == "muon":
        return  # the script's own, or one with a rate for each kind of parameter
    default = schedules.default_rate(asked.optimizer, asked.config.knowledge)
    rate = asked.rate.value if asked.rate is not None else default
    schedule = asked.schedule
    if schedule is None and asked.rate is None:
        yield Check(
            "learning-rate",
            "warn",
            asked.key("optimizer", "params") or asked.key("optimizer"),
            "a learning rate",
            observed,
            None,
            f"the config names no learning rate for {asked.optimizer}, and the run uses {listed(observed[:1])}",
            "Set `optimizer.params.lr`.",
        )
        return
    if rate is None:
        return
    expected: list[schedules.Rate] | None = [rate] * len(observed)
    if schedule is not None:
        expected = schedules.rates(*schedule, rate, len(observed), asked.config.knowledge)
    if expected is None:
        return
    promise = Promise(
        [one[0] if isinstance(one, list) else one for one in expected],
        asked.key("scheduler") or asked.key("optimizer", "params", "lr"),
    )
    yield checked(
        "learning-rate",
        promise,
        observed,
        _are_close(observed, promise.value),
        kept=f"the learning rates are those that the config asks for: {listed(observed)}",
        broken=f"the config asks for the learning rates {listed(promise.value)}, and the run has {listed(observed)}",
    )


def _trainers_rates(asked: Expectation, observed: list[float], adapted: frozenset[str]) -> Iterator[Check]:
    """The same where the training arguments ask for a schedule."""
    wanted = asked.trainers_schedule
    expected = schedules.trainer_rates(*wanted, len(observed)) if wanted is not None else None
    if expected is None:
        return
    section = asked.key("scheduler", "type") or asked.key("optimizer", "params", "lr") or asked.key("optimizer")
    help_ = (
        "Remove `scheduler`, so that the Trainer makes its own, or take the schedule out of the training arguments."
        if asked.schedule is not None
        else 'Set `optimizer.params.lr` to "auto".'
    )
    yield checked(
        "learning-rate",
        Promise(expected, section),
        observed,
        _are_close(observed, expected),
        bad="fail" if asked.asks_for_schedule or asked.argument("learning_rate") is not None else "warn",
        kept=f"the learning rates are those that the training arguments ask for: {listed(observed)}",
        broken=f"the training arguments ask for the learning rates {listed(expected)}, and the run has "
        f"{listed(observed)}",
        help=help_,
        adapted="--num_train_epochs" in adapted,
    )


def _are_close(observed: list[float], expected: list[float]) -> bool:
    return len(observed) == len(expected) and all(
        math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-15)
        for one, other in zip(observed, expected, strict=True)
    )


def listed(rates: list[float]) -> str:
    """Learning rates with four digits."""
    return ", ".join(f"{rate:.4g}" for rate in rates)


def clipping(asked: Expectation, runs: Runs) -> Iterator[Check]:
    """The norm to which gradients are clipped, as it is set and as the steps show it."""
    promise, observed = asked.clipping, runs.engine.clipping
    wrong = _wrongly_clipped(asked, runs, observed if promise is None else promise.value)
    if promise is None and not wrong:
        if observed:
            yield Check(
                "clipping",
                "pass",
                asked.key("gradient_clipping"),
                None,
                observed,
                None,
                f"nobody asks for clipping, and the engine clips gradients to a norm of {observed:g} by default",
            )
        return
    promise = promise or Promise(observed, asked.key("gradient_clipping"))
    yield checked(
        "clipping",
        promise,
        wrong[0] if wrong and math.isclose(observed, promise.value) else observed,
        math.isclose(observed, promise.value) and not wrong,
        kept=_clipped(observed, [step.gradient_norm for step in runs.train[0].steps if step.gradient_norm is not None]),
        broken=_misclipped(asked, promise, observed, wrong),
        help='The Trainer clips nothing itself: set `gradient_clipping` to "auto".'
        if asked.argument("max_grad_norm") is not None and promise.key is None
        else spelling(asked, promise),
    )


def _clipped(norm: float, before: list[float]) -> str:
    if not norm:
        return "gradients are not clipped"
    largest = max(before, default=math.inf)  # where the engine tells no norm, only those after clipping were seen
    return f"gradients are clipped to a norm of {norm:g}" + (
        "" if largest > norm else f"; here none was larger than {largest:.3g}"
    )


def _misclipped(asked: Expectation, promise: Promise, norm: float, wrong: list[float]) -> str:
    by = "max_grad_norm" if asked.argument("max_grad_norm") is not None else f"`{promise.key or 'gradient_clipping'}`"
    if wrong and math.isclose(norm, promise.value):
        asks = f"at most {promise.value:g}" if promise.value else "gradients that are not clipped"
        return f"a step was made with a gradient of norm {wrong[0]:.3g}, and {by} asks for {asks}"
    got = f"clipped to a norm of {norm:g}" if norm else "not clipped"
    return f"gradients are {got}, and {by} asks for {promise.value:g}"


def _wrongly_clipped(asked: Expectation, runs: Runs, norm: float) -> list[float]:
    """The norms of gradients that steps were made with and that are not what this clipping makes of them.

    Each rank clips its share of the gradients; Muon, the 1-bit optimizers, MiCS and tensor parallelism share them
    otherwise.
    """
    is_shared_otherwise = (
        not has_plain_states(asked) or asked.number(ZERO, "mics_shard_size") or ranks_of_a_tensor(asked.final) > 1
    )
    if is_shared_otherwise or not is_scaled(runs):  # in the second case all norms are wrong
        return []
    # In some releases the optimizer of bf16 shares its work without ZeRO too.
    is_shared = runs.engine.stage > 0 or runs.engine.zero_optimizer == "BF16_Optimizer"
    wrong = []
    made = [step for step in runs.train[0].steps if not step.is_skipped]
    for step, squares in zip(made, zip(*(one.squared_norms for one in runs.train), strict=True), strict=False):
        taken = math.sqrt(sum(squares) if is_shared else squares[0])
        before = step.gradient_norm
        if before is None:  # without ZeRO, in fp32: the engine tells none
            expected = min(taken, norm) if norm else taken
        elif math.isfinite(before):
            expected = min(before, norm) if norm else before
        else:
            continue
        if not math.isclose(taken, expected, rel_tol=ROUNDED, abs_tol=1e-6):
            wrong.append(taken)
    return wrong

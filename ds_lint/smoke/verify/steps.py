"""The batch size, learning rate and gradient clipping of a step."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ds_lint.diagnostics.verdict import Check
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.smoke.expected import schedules
from ds_lint.smoke.expected.expectation import (
    ZERO,
    Batch,
    Expectation,
    Requested,
    ranks_of_a_copy,
    ranks_of_a_tensor,
)
from ds_lint.smoke.records.job import RATE
from ds_lint.smoke.verify.check import ObservedRun, SmallRun, checked, skipped, spelling
from ds_lint.smoke.verify.precision import ROUNDED, is_scaled
from ds_lint.smoke.verify.shares import has_plain_states

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

OneRate = TypeVar("OneRate")

_TOLERANCE = 1e-6  # relative, of learning rates


def batch(expectation: Expectation, run: SmallRun) -> Iterator[Check]:
    """The samples of a step."""
    requested_batch = expectation.batch(run.world_size)
    if requested_batch is None:
        return
    observed = _batch_of_a_step(expectation, run)
    keys = [key for name in BATCH_SIZES if (key := expectation.key(name)) is not None]
    key = next((key for key in keys if key in expectation.written_as.values()), keys[0] if keys else None)
    ranks = run.real_ranks
    real = f"; on your {ranks:,} ranks {run.real_batch.in_words(ranks)}" if run.real_batch and ranks else ""
    yield checked(
        "batch",
        Requested(requested_batch.train, key),
        observed.train,
        observed == requested_batch,
        unit="samples a step",
        kept=f"a step takes {observed.in_words(run.world_size)} samples{real}",
        broken=f"a step takes {observed.in_words(run.world_size)} samples, but the config asks for "
        f"{requested_batch.in_words(run.world_size)}",
        help=next(
            filter(None, (spelling(expectation, Requested(None, expectation.key(name))) for name in BATCH_SIZES)), ""
        ),
        adapted=any("batch_size" in key or "accumulation" in key for key in run.adapted),
    )


def _batch_of_a_step(expectation: Expectation, run: SmallRun) -> Batch:
    """The samples of the first step, counted in the forward passes of the model."""
    passes = [one.samples[0] if one.samples else [] for one in run.train]
    whole = sum(map(sum, passes)) // ranks_of_a_copy(expectation.final)
    return Batch(whole, max(passes[0], default=0), len(passes[0]))


def learning_rates(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The learning rates of the steps, compared with the config or the training arguments."""
    steps = run.train[0].steps
    observed = [step.learning_rates[0] for step in steps]
    key = expectation.key("scheduler") or expectation.key("optimizer", "params", "lr")
    is_skipped = [step.is_skipped for step in steps]
    if any(is_skipped) and not isinstance(run, SmallRun):
        yield skipped("learning-rate", key, "the schedule does not advance while steps are skipped")
        return
    if isinstance(run, SmallRun) and (other := _other_group(expectation, run)) is not None:
        yield Check("learning-rate", "fail", key, observed[0], other.rate, None, other.words)
        return
    if expectation.config.stack == "trainer" and (expectation.schedule is None or expectation.asks_for_schedule):
        yield from _trainers_rates(expectation, observed, is_skipped, run.adapted)
        return
    if (expectation.optimizer or "").lower() == "muon":
        return  # which has a rate for each kind of parameter
    schedule = expectation.schedule
    if expectation.optimizer is None:
        if not isinstance(run, SmallRun):
            return  # the optimizer of the script
        rate: float | None = run.accelerate_script.rate if run.accelerate_script is not None else RATE
    else:
        default = schedules.default_rate(expectation.optimizer, expectation.config.knowledge)
        rate = expectation.rate.value if expectation.rate is not None else default
    if schedule is None and expectation.rate is None and expectation.optimizer is not None:
        yield Check(
            "learning-rate",
            "warn",
            expectation.key("optimizer", "params") or expectation.key("optimizer"),
            "a learning rate",
            observed,
            None,
            f"the config sets no learning rate for {expectation.optimizer}, so the run uses {listed(observed[:1])}",
            "Set `optimizer.params.lr`.",
        )
        return
    if rate is None:
        return
    expected: list[schedules.Rate] | None = [rate] * len(observed)
    if schedule is not None:
        expected = schedules.rates(*schedule, rate, len(observed), expectation.config.knowledge)
    if expected is None:
        return
    expected = _without_advance(expected, is_skipped)
    source = "config" if expectation.optimizer is not None or schedule is not None else "script's optimizer"
    requested = Requested(
        [one[0] if isinstance(one, list) else one for one in expected],
        expectation.key("scheduler") or expectation.key("optimizer", "params", "lr"),
    )
    yield checked(
        "learning-rate",
        requested,
        observed,
        _are_close(observed, requested.value),
        kept=f"the learning rates are those of the {source}: {listed(observed)}",
        broken=_first_other(observed, requested.value, f"the {source} asks"),
        help=_all_rates(observed, requested.value),
    )


class _OtherRate(NamedTuple):
    """A parameter group with another learning rate than the first one of rank 0, and that in words."""

    rate: float
    words: str


def _other_group(expectation: Expectation, run: SmallRun) -> _OtherRate | None:
    """A group of any rank with a rate of its own; Muon has one rate for each kind of parameter."""
    if (expectation.optimizer or "").lower() == "muon":
        return None
    for rank, one in enumerate(run.train):
        for number, (step, first) in enumerate(zip(one.steps, run.train[0].steps, strict=False), start=1):
            for group, rate in enumerate(step.learning_rates):
                if not _is_close(rate, first.learning_rates[0]):
                    which = f"parameter group {group} of rank {rank}"
                    both = f"{rate:.7g}, and group 0 of rank 0 {first.learning_rates[0]:.7g}"
                    return _OtherRate(rate, f"in step {number}, {which} has the learning rate {both}")
    return None


def _without_advance(rates: Sequence[OneRate], is_skipped: list[bool]) -> list[OneRate]:
    """The rates where some steps are skipped: the schedule advances with steps that are made.

    Source: ``_take_model_step`` in deepspeed/runtime/engine.py.
    """
    made = itertools.accumulate((not one for one in is_skipped), initial=0)
    return [rates[number] for number, _ in zip(made, is_skipped, strict=False)]


def _trainers_rates(
    expectation: Expectation, observed: list[float], is_skipped: list[bool], adapted: frozenset[str]
) -> Iterator[Check]:
    """The same for a schedule of the training arguments."""
    wanted = expectation.trainers_schedule
    expected = schedules.trainer_rates(*wanted, len(observed)) if wanted is not None else None
    if expected is None:
        return
    expected = _without_advance(expected, is_skipped)
    section = (
        expectation.key("scheduler", "type")
        or expectation.key("optimizer", "params", "lr")
        or expectation.key("optimizer")
    )
    help_ = (
        "Delete `scheduler`, so that the Trainer creates its own, or remove the schedule from the training arguments."
        if expectation.schedule is not None
        else 'Set `optimizer.params.lr` to "auto".'
    )
    yield checked(
        "learning-rate",
        Requested(expected, section),
        observed,
        _are_close(observed, expected),
        bad="fail" if expectation.asks_for_schedule or expectation.argument("learning_rate") is not None else "warn",
        kept=f"the learning rates are those of the training arguments: {listed(observed)}",
        broken=_first_other(observed, expected, "the training arguments ask"),
        help=f"{help_} {_all_rates(observed, expected)}",
        adapted="--num_train_epochs" in adapted,
    )


def _are_close(observed: list[float], expected: list[float]) -> bool:
    return len(observed) == len(expected) and all(map(_is_close, observed, expected))


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-15)


def _first_other(observed: list[float], expected: list[float], asks: str) -> str:
    if len(observed) != len(expected):
        return f"{len(observed)} steps have a learning rate, but {asks} for {len(expected)}"
    pairs = enumerate(zip(observed, expected, strict=True), start=1)
    found = next(((step, *pair) for step, pair in pairs if not _is_close(*pair)), None)
    if found is None:
        return ""  # nothing is broken
    step, rate, wanted = found
    return f"step {step} has the learning rate {rate:.7g}, but {asks} for {wanted:.7g}"


def _all_rates(observed: list[float], expected: list[float]) -> str:
    return f"The rates of all steps are {listed(observed)}, not {listed(expected)}."


def listed(rates: list[float]) -> str:
    """Learning rates with four digits."""
    return ", ".join(f"{rate:.4g}" for rate in rates)


def clipping(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The norm to which gradients are clipped, in the engine and in the steps."""
    requested, observed = expectation.clipping, run.engine.clipping
    if requested is None and isinstance(run, SmallRun) and not math.isclose(observed, expectation.clipping_by_default):
        requested = Requested(expectation.clipping_by_default, expectation.key("gradient_clipping"))
    wrong = _wrongly_clipped(expectation, run, observed if requested is None else requested.value)
    if requested is None and not wrong:
        if observed:
            yield Check(
                "clipping",
                "pass",
                expectation.key("gradient_clipping"),
                None,
                observed,
                None,
                f"no clipping is configured, and the engine clips gradients to a norm of {observed:g} by default",
            )
        return
    requested = requested or Requested(observed, expectation.key("gradient_clipping"))
    yield checked(
        "clipping",
        requested,
        wrong[0] if wrong and math.isclose(observed, requested.value) else observed,
        math.isclose(observed, requested.value) and not wrong,
        kept=_clipped(observed, [step.gradient_norm for step in run.train[0].steps if step.gradient_norm is not None]),
        broken=_misclipped(expectation, requested, observed, wrong),
        help='Set `gradient_clipping` to "auto", because the Trainer does not clip gradients itself.'
        if expectation.argument("max_grad_norm") is not None and requested.key is None
        else spelling(expectation, requested),
    )


def _clipped(norm: float, before: list[float]) -> str:
    if not norm:
        return "gradients are not clipped"
    largest = max(before, default=math.inf)  # if the engine reports no norm, only norms after clipping are known
    return f"gradients are clipped to a norm of {norm:g}" + (
        "" if largest > norm else f"; in this run none was larger than {largest:.3g}"
    )


def _misclipped(expectation: Expectation, requested: Requested, norm: float, wrong: list[float]) -> str:
    by = (
        "`max_grad_norm`"
        if expectation.argument("max_grad_norm") is not None
        else f"`{requested.key or 'gradient_clipping'}`"
    )
    if wrong and math.isclose(norm, requested.value):
        asks = f"at most {requested.value:g}" if requested.value else "gradients that are not clipped"
        return f"a step used a gradient of norm {wrong[0]:.3g}, but {by} asks for {asks}"
    got = f"clipped to a norm of {norm:g}" if norm else "not clipped"
    return f"gradients are {got}, but {by} asks for {requested.value:g}"


def _wrongly_clipped(expectation: Expectation, run: ObservedRun, norm: float) -> list[float]:
    """The norms of the gradients of steps that differ from the result of this clipping.

    Each rank clips its share of the gradients; Muon, the 1-bit optimizers, MiCS and tensor parallelism shard them
    in another way.
    """
    is_shared_otherwise = (
        not has_plain_states(expectation)
        or expectation.number(ZERO, "mics_shard_size")
        or ranks_of_a_tensor(expectation.final) > 1
    )
    if is_shared_otherwise or not is_scaled(run):  # without scaling, all norms are wrong
        return []
    # In some releases the optimizer of bf16 shards its work without ZeRO too.
    is_shared = run.engine.stage > 0 or run.engine.zero_optimizer == "BF16_Optimizer"
    wrong = []
    made = [step for step in run.train[0].steps if not step.is_skipped]
    for step, squares in zip(made, zip(*(one.squared_norms for one in run.train), strict=True), strict=False):
        taken = math.sqrt(sum(squares) if is_shared else squares[0])
        before = step.gradient_norm
        if before is None:  # without ZeRO, in fp32, the engine reports none
            expected = min(taken, norm) if norm else taken
        elif math.isfinite(before):
            expected = min(before, norm) if norm else before
        else:
            continue
        if not math.isclose(taken, expected, rel_tol=ROUNDED, abs_tol=1e-6):
            wrong.append(taken)
    return wrong

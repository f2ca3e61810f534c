"""The learning rates with which the steps of the user's own script are made, and who sets them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.expected import schedules
from ds_lint.smoke.records.engine_trace import GOES_ON, SETS_RATES
from ds_lint.smoke.verify import steps
from ds_lint.smoke.verify.check import ScriptRun, skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.smoke.expected.expectation import Expectation

RATE = "learning-rate"
_TOLERANCE = 1e-5  # relative


def learning_rates(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """The learning rates: those of the config or the Trainer, or those of the script, which may overwrite them."""
    one, key = run.ranks[0], expectation.key("scheduler") or expectation.key("optimizer", "params", "lr")
    if (other := _other_rates(run, key)) is not None:
        yield other
        return
    scheduler = one.scheduler.rpartition(".")[2]
    is_trainer = expectation.config.stack == "trainer"
    if one.own_rates == GOES_ON:
        yield skipped(RATE, key, f"{GOES_ON}, so the learning rates need not be those of the config")
    elif one.own_rates is not None:
        yield from _of_script(expectation, run, key, one.own_rates)
    elif not is_trainer and expectation.schedule is None and expectation.optimizer is None:
        return  # the config asks for none
    elif not is_trainer and expectation.schedule is None and scheduler:
        yield from _of_script(expectation, run, key, f"the {scheduler} of the script sets the learning rates")
    else:
        yield from steps.learning_rates(expectation, run)


def _of_script(expectation: Expectation, run: ScriptRun, key: str | None, who: str) -> Iterator[Check]:
    """The rates that the script sets, with what becomes of those in the config."""
    observed = [step.learning_rates[0] for step in run.train[0].steps if step.learning_rates]
    if not observed:
        return
    written = _written(expectation, len(observed))
    rates = f"the steps are made with {steps.listed(observed)}"
    if written is None or all(map(_is_close, observed, written)):
        same = " as the config asks for" if written is not None else ""
        yield Check(RATE, "pass", key, written, observed, None, f"{who}: {rates}{same}")
        return
    if expectation.schedule is not None and run.ranks[0].own_rates == SETS_RATES:
        what = f"the {expectation.schedule[0]} of the config asks for {steps.listed(written)}"
        yield _overwritten(key, written, observed, f"{who}: {rates}, but {what}")
        return
    most = max(written)
    is_schedule = len(set(observed)) > 1 and max(observed) <= most * (1 + _TOLERANCE)
    if run.ranks[0].own_rates != SETS_RATES or is_schedule:  # a schedule of the script, from the rate of the config
        yield Check(RATE, "pass", key, None, observed, None, f"{who}: {rates}")
        return
    yield _overwritten(key, written, observed, f"{who}: {rates}, but the config asks for {steps.listed(written[:1])}")


def _overwritten(key: str | None, written: list[float], observed: list[float], message: str) -> Check:
    help_ = "Leave the rates to the config, or delete `scheduler` there, and `lr` unless the script starts from it."
    return Check(RATE, "warn", key, written, observed, None, message, help_)


def _written(expectation: Expectation, number: int) -> list[float] | None:
    """The rates of the first parameter group that the config asks for; None if it asks for none that are known."""
    rate = expectation.rate.value if expectation.rate is not None else None
    if not isinstance(rate, (int, float)) or expectation.config.stack == "trainer":
        return None
    if expectation.schedule is None:
        return [float(rate)] * number
    found = schedules.rates(*expectation.schedule, rate, number, expectation.config.knowledge)
    return None if found is None else [one[0] if isinstance(one, list) else one for one in found]


def _is_close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=1e-15)


def _other_rates(run: ScriptRun, key: str | None) -> Check | None:
    """A rank that steps with other learning rates than rank 0, which has the same parameter groups."""
    if run.is_pipeline:
        return None
    first, *others = ([step.learning_rates for step in one.steps] for one in run.train)
    for rank, rates in enumerate(others, start=1):
        number = next(
            (number for number, pair in enumerate(zip(first, rates, strict=False)) if pair[0] != pair[1]), None
        )
        if number is not None:
            both = f"{steps.listed(rates[number])} in step {number + 1}, and rank 0 with {steps.listed(first[number])}"
            return Check(
                RATE, "fail", key, first[number], rates[number], None,
                f"rank {rank} steps with the learning rate {both}",
            )  # fmt: skip
    return None

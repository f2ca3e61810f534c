"""The loss scale of each step, compared with the rule by which it rises and falls."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import Requested
from ds_lint.smoke.expected.loss_scale_rule import LossScaleRule, scales
from ds_lint.smoke.verify.check import ScriptRun, SmallRun, checked
from ds_lint.smoke.verify.precision import as_power

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.expectation import Expectation
    from ds_lint.smoke.records.job import Evidence

_WINDOW = 1000  # the documented default of fp16.loss_scale_window
_HYSTERESIS = 2
_LEAST = (1.0, 1000.0, 0.25)  # defaults of fp16.min_loss_scale: now, before 0.9, and of optimizers that are not fused


def course(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Each rank's loss scale after each step; how it starts is known if the script does not go on from a checkpoint."""
    for one in run.train:
        observed = [step.loss_scale for step in one.steps]
        if not one.scalings or any(scale is None for scale in observed):
            continue
        found = [one.scalings[0][1], *(float(scale or 0) for scale in observed)]
        is_new = one.fingerprint.get("steps") == str(run.steps)
        wrong = _wrong(expectation, found, [step.is_skipped for step in one.steps], is_new=is_new)
        if wrong is None:
            continue
        requested, after, why = wrong
        when = f"after step {after}" if after else "in the first step"
        yield checked(
            "loss-scale",
            requested,
            found[after],
            is_kept=False,
            kept="",
            broken=f"{when}, the loss scale of rank {one.rank} is {as_power(found[after])}, not "
            f"{as_power(float(requested.value))}",
            help=why,
        )
        return


def whole_course(expectation: Expectation, run: SmallRun) -> Iterator[Check]:
    """The loss scale of each step of the training, and of the steps in which ds-lint made the overflows."""
    rule, start = expectation.loss_scale_rule, expectation.first_loss_scale
    if rule is None or start is None or not all(one.scalings for one in run.train):
        return
    if not any(one.scales for one in run.train) or (expectation.stage and expectation.stage.value != run.engine.stage):
        return
    overflows = [*(step.is_skipped for step in run.train[0].steps), *run.overflows]
    wanted = scales(rule, start, overflows)
    key = expectation.key("fp16", "loss_scale" if rule.is_static else "initial_scale_power")
    wrong = next(filter(None, (_first_other(one, rule, wanted, run.overflows) for one in run.train)), None)
    observed = _observed(run.train[0])
    yield checked(
        "loss-scale",
        Requested(wanted[: len(observed)], key),
        observed,
        wrong is None,
        unit="steps",
        kept=f"over {len(observed) - 1} steps, of which {sum(overflows[: len(observed) - 1])} overflow, the loss scale "
        f"{_shape(observed)}",
        broken=wrong or "",
        help=_of_rule(rule),
        adapted="fp16.loss_scale_window" in run.adapted,
    )


def _observed(one: Evidence) -> list[float]:
    return [one.scalings[0][1], *(float(step.loss_scale or 1.0) for step in one.steps), *one.scales]


def _first_other(one: Evidence, rule: LossScaleRule, wanted: list[float], overflows: list[bool]) -> str | None:
    """The first step after which the loss scale of a rank is not that of the rule, in words."""
    observed = _observed(one)
    for after, (scale, right) in enumerate(zip(observed, wanted, strict=False)):
        if scale != right:
            when = f"after step {after}" if after else "in the first step"
            return f"{when}, the loss scale of rank {one.rank} is {as_power(scale)}, not {as_power(right)}"
    if one.made_anyway:
        number = one.made_anyway[0]
        what = "makes" if overflows[number] else "skips"
        whose = "a gradient overflows on one rank" if overflows[number] else "no gradient overflows"
        return f"rank {one.rank} {what} step {len(one.steps) + number + 1}, in which {whose}"
    if len(observed) < len(wanted):
        is_at_least = one.stopped == "" and observed[-1] == rule.least
        return None if is_at_least else f"step {len(observed)} stops on rank {one.rank}: {one.stopped}"
    return None


def _shape(observed: list[float]) -> str:
    """``rises 2 times, falls 3 times, and ends at 2^15``."""
    pairs = list(itertools.pairwise(observed))
    rises, falls = sum(one < other for one, other in pairs), sum(one > other for one, other in pairs)
    if not rises + falls:
        return f"stays at {as_power(observed[0])}"
    return f"begins at {as_power(observed[0])}, rises {rises} times and falls {falls} times"


def _of_rule(rule: LossScaleRule) -> str:
    if rule.is_static:
        return "`fp16.loss_scale` sets a static loss scale."
    absorbed = f"{rule.hysteresis - 1} overflow{'s' * (rule.hysteresis != 2)}"
    return (
        f"It doubles after {rule.window} steps without an overflow, and halves in an overflow, down to "
        f"{as_power(rule.least)}" + f"; the hysteresis absorbs {absorbed}" * (rule.hysteresis > 1) + "."
    )


def _wrong(
    expectation: Expectation, found: list[float], skipped: list[bool], *, is_new: bool
) -> tuple[Requested, int, str] | None:
    """What is requested, the first step after which the scale differs from it, and why, in words."""
    if expectation.is_loss_scale_static:
        wanted = expectation.number("fp16", "loss_scale")
        wrong = next((after for after, scale in enumerate(found) if scale != wanted), None)
        requested = expectation.requested(wanted, "fp16", "loss_scale")
        if wrong is None:
            return None
        return requested, wrong, "`fp16.loss_scale` sets a static loss scale."
    power = expectation.number("fp16", "initial_scale_power")
    if power is not None and is_new and found[0] != 2.0**power:
        requested = expectation.requested(2.0**power, "fp16", "initial_scale_power")
        return requested, 0, "`fp16.initial_scale_power` sets the initial loss scale."
    if not is_new:
        return None
    documented = list(_documented(expectation, found[0], skipped))
    if found in documented:
        return None
    expected = documented[0]
    after = next(number for number, pair in enumerate(zip(found, expected, strict=True)) if pair[0] != pair[1])
    rises = expected[after] > expected[after - 1]
    overflowed = sum(skipped[:after])
    cause = f"{overflowed or 'None'} of {after} steps overflowed"
    window = f" and `fp16.loss_scale_window` is {_window(expectation)}" if rises else ""
    return (
        expectation.requested(expected[after], "fp16", "loss_scale_window" if rises else "enabled"), after,
        f"{cause}{window}.",
    )  # fmt: skip


def _window(expectation: Expectation) -> int:
    return int(expectation.number("fp16", "loss_scale_window") or _WINDOW)


def _documented(expectation: Expectation, start: float, skipped: list[bool]) -> Iterator[list[float]]:
    """The scales by the rule, with every default that a release has."""
    written = expectation.number("fp16", "hysteresis")
    hystereses = dict.fromkeys((int(written if written is not None else _HYSTERESIS), 1))
    least = expectation.number("fp16", "min_loss_scale")
    refills = bool(expectation.final.value("fp16", "consecutive_hysteresis"))
    for hysteresis, lowest in itertools.product(hystereses, _LEAST if least is None else (least,)):
        yield scales(LossScaleRule(_window(expectation), hysteresis, lowest, refills), start, skipped)

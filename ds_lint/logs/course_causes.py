"""What is odd in the numbers of a run: loss, gradient norm, learning rate, loss scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.knowledge import symptoms
from ds_lint.logs.cause import ShownBy, of_symptom
from ds_lint.logs.course import FEW
from ds_lint.logs.messages import duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.logs.cause import Cause
    from ds_lint.logs.record import Log

_MANY = 8
_MOST = 0.6


def of_courses(logs: Sequence[Log], *, is_failed: bool) -> Iterator[Cause]:
    """What is odd in the numbers of the logs."""
    for log in logs:
        for id_, groups, at in _oddities(log, is_failed=is_failed):
            cause = of_symptom(symptoms.by_id()[id_], groups, [])
            cause.evidence, cause.is_of_course = [ShownBy(log.path, at, cause.message)], True
            yield cause


def stalled(log: Log, seconds: float) -> Cause:
    """The cause of a run whose log does not grow."""
    cause = of_symptom(symptoms.by_id()["stalled"], {"minutes": duration(seconds)}, [])
    cause.evidence = [ShownBy(log.path, log.lines, cause.message)]
    return cause


def _oddities(log: Log, *, is_failed: bool) -> Iterator[tuple[str, dict[str, str], int]]:
    course = log.course
    if course is None:
        return
    loss, norm, rate = course.loss, course.norm, course.rate
    if loss.count and not math.isfinite(loss.last) and loss.run >= (1 if is_failed else FEW):
        yield "loss-not-finite", {"value": f"{loss.last:g}", "at": str(loss.run_at)}, loss.run_at
    at = course.last_overflow_at or 0
    is_at_end = course.loss.last_at <= at or course.steps_with_overflow >= FEW
    if course.stuck_scale >= FEW and is_at_end:
        count = str(course.overflows)
        yield "loss-scale-stuck", {"count": count, "scale": f"{course.least_scale or 0:,g}"}, at
    elif course.steps_with_overflow >= 5 or (course.overflows_since_loss >= 25 and course.loss.last_at < at):
        count = str(max(course.steps_with_overflow, course.overflows_since_loss))
        yield "every-step-overflows", {"count": count}, at
    elif (
        course.first_scale is not None
        and course.overflow_steps >= _MANY
        and course.overflow_steps >= _MOST * course.loss.count
    ):
        groups = {"count": str(course.overflow_steps), "steps": str(course.loss.count)}
        yield "most-steps-overflow", groups | {"scale": f"{course.first_scale:,.0f}"}, at
    is_norm_lost = norm.run >= FEW or (loss.last == 0 and norm.last_at == loss.last_at)  # NaN weights give 0.0
    if norm.count and not math.isfinite(norm.last) and is_norm_lost:
        zero = ", and the loss is 0.0" if loss.last == 0 else ""
        groups = {"value": f"{norm.last:g}", "at": str(norm.run_at), "zero": zero}
        yield "gradients-not-finite", groups, norm.run_at
    elif loss.last == 0 and loss.run >= FEW:
        yield "loss-is-zero", {"at": str(loss.run_at)}, loss.run_at
    elif rate.count >= _MANY and rate.run == rate.count and rate.last == 0:
        yield "rate-is-zero", {"count": str(rate.count)}, rate.last_at
    elif loss.count >= _MANY and loss.run == loss.count and loss.last != 0:
        yield "loss-does-not-change", {"count": str(loss.count)}, loss.last_at

"""How the loss scale rises and falls, as documented, and the steps in which a run provokes overflows to see it.

Sources: ``DynamicLossScaler.update_scale`` in deepspeed/runtime/fp16/loss_scaler.py, and at stage 0
``FP16_Optimizer._update_scale`` in deepspeed/runtime/fp16/fused_optimizer.py, which knows no hysteresis.
"""

from __future__ import annotations

import math
from typing import NamedTuple

_SAFE = 2.0**16
_MOST_HYSTERESIS = 8  # overflows that a run provokes in turn
_MOST_FALLS = 8  # to the smallest loss scale


class LossScaleRule(NamedTuple):
    """The rule of a dynamic loss scale; a static one never changes."""

    window: int
    hysteresis: int
    least: float
    refills: bool = False  # the hysteresis in each step without an overflow
    is_static: bool = False


def scales(rule: LossScaleRule, start: float, overflows: list[bool]) -> list[float]:
    """The scale before the first step, and after each."""
    found, scale, left, last = [start], start, rule.hysteresis, -1
    for step, is_overflow in enumerate(overflows):
        stable = step - last - 1
        if rule.is_static:
            pass
        elif is_overflow:
            falls = rule.hysteresis == 1 or left == 1
            scale, left = (max(scale / 2, rule.least), left) if falls else (scale, left - 1)
            last = step
        else:
            left = rule.hysteresis if rule.refills else left
            if stable > 0 and stable % rule.window == 0:
                scale, left = scale * 2, rule.hysteresis
        found.append(scale)
    return found


def provoked(rule: LossScaleRule, start: float, *, steps: int) -> list[bool]:
    """Which steps after those of a run overflow: the scale rises, keeps its hysteresis, falls, and ends at its least.

    A scale of up to 2**16 overflows in no step of the small model. Above, one step more than a window without an
    overflow is a new beginning, whatever happened before. In the last step the scale may not fall any further, and
    DeepSpeed raises there.
    """
    if rule.is_static:
        return [False, True, False]
    absorbed = max(0, min(rule.hysteresis, _MOST_HYSTERESIS) - 1)
    calm = 1 if start <= _SAFE else rule.window + 1
    found = [False] * calm + [True] * absorbed + [False] + [True] * (absorbed * rule.refills + 2)
    course = scales(rule, start, [False] * steps + found)
    while found and course[-1] < 2 * rule.least:
        found.pop()
        course.pop()
    falls = math.floor(math.log2(course[-1] / rule.least))
    ends_at_least = rule.hysteresis <= absorbed + 1 and falls <= _MOST_FALLS
    return found + [True] * (falls + 1 if ends_at_least else 0)

"""The loss scale by the rule of DeepSpeed, and the overflows that a run makes to see it."""

from __future__ import annotations

import pytest

from ds_lint.smoke.expected.loss_scale_rule import LossScaleRule, provoked, scales

STEPS = 5  # of a run, in which none overflows


@pytest.mark.parametrize(
    ("rule", "overflows", "course"),
    [
        (LossScaleRule(2, 1, 1), [False] * 5, [8, 8, 8, 16, 16, 32]),
        (LossScaleRule(2, 1, 1), [True, True, False, False, False], [8, 4, 2, 2, 2, 4]),
        (LossScaleRule(9, 2, 1), [True, True, False, True], [8, 8, 4, 4, 2]),
        (LossScaleRule(9, 2, 1, refills=True), [True, True, False, True, True], [8, 8, 4, 4, 4, 2]),
        (LossScaleRule(9, 1, 4), [True, True, True], [8, 4, 4, 4]),
        (LossScaleRule(9, 0, 1), [True, True, True], [8, 8, 8, 8]),  # which never comes to 1
        (LossScaleRule(1, 1, 1, is_static=True), [True, False, False], [8, 8, 8, 8]),
    ],
)
def test_the_scale_rises_and_falls_by_the_rule(rule, overflows, course):
    assert scales(rule, 8, overflows) == course


@pytest.mark.parametrize("hysteresis", [1, 2, 3])
@pytest.mark.parametrize("refills", [False, True])
@pytest.mark.parametrize("start", [2.0**16, 2.0**20])
def test_another_rule_gives_another_course(hysteresis, refills, start):
    """A scale that never grows or falls, another hysteresis, and one that is refilled or is not."""
    rule = LossScaleRule(STEPS, hysteresis, 1, refills)
    overflows = [False] * STEPS + provoked(rule, start, steps=STEPS)
    course = scales(rule, start, overflows)
    assert max(course) > start
    others = [rule._replace(window=10**9), rule._replace(hysteresis=hysteresis + 1)]
    others += [rule._replace(hysteresis=hysteresis - 1), rule._replace(refills=not refills)] * (hysteresis > 1)
    for other in others:
        assert scales(other, start, overflows) != course


def test_a_least_scale_that_is_near_is_reached_in_the_last_step_but_one():
    rule = LossScaleRule(STEPS, 2, 1024)
    *before, last = provoked(rule, 2.0**14, steps=STEPS)
    course = scales(rule, 2.0**14, [False] * STEPS + before)
    assert (course[-1], course[-2], last) == (1024, 2048, True)


def test_a_least_scale_that_is_far_away_takes_too_many_steps():
    assert len(provoked(LossScaleRule(STEPS, 2, 1), 2.0**16, steps=STEPS)) == 5

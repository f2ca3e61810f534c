"""The loss scale of a script by step: it starts, rises and falls as the config says."""

from __future__ import annotations

import pytest
from shown_engines import CONFIG, expected, runs, shown

from ds_lint.diagnostics.verdict import Step
from ds_lint.smoke.verify.loss_scales import course

DYNAMIC = {"initial_scale_power": 8, "loss_scale_window": 1, "hysteresis": 1}


def told(scales, overflows=(False, False, False), *, of_rank=0, steps=3, **section):
    config = {**CONFIG, "fp16": {"enabled": True, **section}}
    ranks = [shown(rank, config=config) for rank in (0, 1)]
    for one in ranks:
        first, *after = scales if one.evidence.rank == of_rank else scales_of(section, overflows)
        one.evidence.scalings = [(first, first)]
        one.evidence.steps = [Step(1.0, [1e-3], *pair) for pair in zip(after, (1.0,) * 3, overflows, strict=True)]
        one.evidence.fingerprint["steps"] = str(steps)
    return [
        (check.status, f"{check.message}. {check.help}", check.key)
        for check in course(expected(ranks[0], config), runs(ranks))
    ]


def scales_of(section, overflows):
    """Right ones."""
    if "loss_scale" in section:
        return [section["loss_scale"]] * 4
    return [256.0, 128.0, 64.0, 32.0] if all(overflows) else [256.0, 256.0, 512.0, 1024.0]


def test_a_static_scale_stays():
    assert told([128.0] * 4, loss_scale=128) == []
    assert told([1024.0] * 4, loss_scale=128) == [
        (
            "fail",
            "in the first step, the loss scale of rank 0 is 2^10, not 2^7. `fp16.loss_scale` sets a static loss scale.",
            "fp16.loss_scale",
        )
    ]


def test_a_scale_that_falls_with_each_overflow():
    assert told([256.0, 128.0, 64.0, 32.0], [True] * 3, **DYNAMIC) == []
    ((status, message, key),) = told([256.0] * 4, [True] * 3, of_rank=1, **DYNAMIC)
    assert (status, key) == ("fail", "fp16.enabled")
    assert message == "after step 1, the loss scale of rank 1 is 2^8, not 2^7. 1 of 1 steps overflowed."


def test_a_scale_that_rises_with_each_window():
    assert told([256.0, 256.0, 512.0, 1024.0], **DYNAMIC) == []
    ((status, message, key),) = told([256.0] * 4, **DYNAMIC)
    assert (status, key) == ("fail", "fp16.loss_scale_window")
    assert message.endswith("is 2^8, not 2^9. None of 2 steps overflowed and `fp16.loss_scale_window` is 1.")


@pytest.mark.parametrize("scales", [[256.0, 256.0, 128.0, 64.0], [256.0, 128.0, 64.0, 32.0]])
def test_without_a_written_hysteresis_both_rules_hold(scales):
    """Two with ZeRO, one without it."""
    assert told(scales, [True] * 3, initial_scale_power=8, loss_scale_window=1) == []


def test_a_scale_that_starts_elsewhere_fails_in_a_new_training_only():
    wrong = [512.0, 512.0, 1024.0, 2048.0]
    ((_, message, key),) = told(wrong, **DYNAMIC)
    assert key == "fp16.initial_scale_power"
    assert message.endswith(
        "the loss scale of rank 0 is 2^9, not 2^8. `fp16.initial_scale_power` sets the initial loss scale."
    )
    assert told(wrong, steps=103, **DYNAMIC) == []

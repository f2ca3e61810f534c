"""The loss scale of each step, compared with the rule by which it rises and falls.

Sources: ``DynamicLossScaler.update_scale`` in deepspeed/runtime/fp16/loss_scaler.py, and at stage 0
``FP16_Optimizer._update_scale`` in deepspeed/runtime/fp16/fused_optimizer.py, which knows no hysteresis.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ds_lint.smoke.verify.check import ScriptRun, checked
from ds_lint.smoke.verify.precision import as_power

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check
    from ds_lint.smoke.expected.expectation import Expectation, Requested

_WINDOW = 1000  # the documented default of fp16.loss_scale_window
_HYSTERESIS = 2
_LEAST = (1.0, 1000.0, 0.25)  # defaults of fp16.min_loss_scale: now, before 0.9, and of optimizers that are not fused


def course(expectation: Expectation, run: ScriptRun) -> Iterator[Check]:
    """Each rank's loss scale after each step; how it starts is known if the script does not go on from a checkpoint."""
    for one in run.train:
        observed = [step.loss_scale for step in one.steps]
        if not one.scalings or any(scale is None for scale in observed):
            continue
        scales = [one.scalings[0][1], *(float(scale or 0) for scale in observed)]
        is_new = one.fingerprint.get("steps") == str(run.steps)
        wrong = _wrong(expectation, scales, [step.is_skipped for step in one.steps], is_new=is_new)
        if wrong is None:
            continue
        requested, after, why = wrong
        when = f"after step {after}" if after else "in the first step"
        yield checked(
            "loss-scale",
            requested,
            scales[after],
            is_kept=False,
            kept="",
            broken=f"{when}, the loss scale of rank {one.rank} is {as_power(scales[after])}, not "
            f"{as_power(float(requested.value))}",
            help=why,
        )
        return


def _wrong(
    expectation: Expectation, scales: list[float], skipped: list[bool], *, is_new: bool
) -> tuple[Requested, int, str] | None:
    """What is requested, the first step after which the scale differs from it, and why, in words."""
    if expectation.is_loss_scale_static:
        wanted = expectation.number("fp16", "loss_scale")
        wrong = next((after for after, scale in enumerate(scales) if scale != wanted), None)
        requested = expectation.requested(wanted, "fp16", "loss_scale")
        if wrong is None:
            return None
        return requested, wrong, "`fp16.loss_scale` sets a static loss scale."
    power = expectation.number("fp16", "initial_scale_power")
    if power is not None and is_new and scales[0] != 2.0**power:
        requested = expectation.requested(2.0**power, "fp16", "initial_scale_power")
        return requested, 0, "`fp16.initial_scale_power` sets the initial loss scale."
    if not is_new:
        return None
    documented = list(_documented(expectation, scales[0], skipped))
    if scales in documented:
        return None
    expected = documented[0]
    after = next(number for number, pair in enumerate(zip(scales, expected, strict=True)) if pair[0] != pair[1])
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
        yield _scales(start, skipped, _window(expectation), hysteresis, lowest, refills=refills)


def _scales(
    scale: float, skipped: list[bool], window: int, hysteresis: int, lowest: float, *, refills: bool
) -> list[float]:
    found, left, last = [scale], hysteresis, -1
    for step, is_skipped in enumerate(skipped):
        stable = step - last - 1
        if is_skipped:
            scale, left = (max(scale / 2, lowest), left) if left <= 1 else (scale, left - 1)
            last = step
        else:
            left = hysteresis if refills else left
            if stable > 0 and stable % window == 0:
                scale, left = scale * 2, hysteresis
        found.append(scale)
    return found

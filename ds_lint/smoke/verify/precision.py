"""Dtypes, the loss, and the loss scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ds_lint.smoke.expected.expectation import Expectation, Requested
from ds_lint.smoke.verify.check import ObservedRun, ScriptRun, checked, skipped, spelling

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.verdict import Check

_REQUESTED_BY_NAME = ("gradients", "linear layers")  # whose dtype is expected only if a key of its own sets it
ROUNDED = 0.02  # relative, of norms and scales: those of 16-bit numbers are rounded


def dtypes(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """The dtypes of the tensors, and the dtype in which gradients are reduced."""
    evidence = run.train[0]
    for kind, requested in (
        ("parameters", expectation.dtype),
        ("master weights", expectation.master_dtype),
        ("gradients", expectation.accumulation_dtype),
        ("linear layers", expectation.autocast_dtype),
    ):
        observed = evidence.dtypes.get(kind)
        if requested is None:
            continue
        if not observed:
            if kind in _REQUESTED_BY_NAME:
                yield skipped("dtypes", requested.key, f"the run shows no dtype of {kind}")
            continue
        yield _dtype(
            expectation, kind, requested, observed, "fp16.enabled" in run.adapted and requested.value == "float16"
        )
    if adapters := evidence.dtypes.get("adapters"):
        yield _of_adapters(expectation.dtype, adapters, run.engine.stage)
    requested = expectation.communication_dtype
    if requested is not None:
        yield _dtype(expectation, "communication", requested, [run.engine.communication_dtype], adapted=False)


def _of_adapters(requested: Requested, observed: list[str], stage: int) -> Check:
    """Adapters of 16-bit weights are in fp32 as peft creates them, and DeepSpeed casts none beside partitioned weights.

    Sources: ``cast_adapter_dtype`` in peft/tuners/tuners_utils.py, ``_cast_module_mixed_precision`` in
    deepspeed/runtime/engine.py.
    """
    found = " and ".join(observed)
    is_as_created = stage == 3 and observed == ["float32"] != [requested.value]
    by_peft = ", as peft creates them beside partitioned 16-bit weights" if is_as_created else ""
    return checked(
        "dtypes",
        requested,
        observed,
        is_as_created or observed == [requested.value],
        kept=f"adapters are {found}{by_peft}",
        broken=f"adapters are {found}, but the config asks for {requested.value}",
    )


def _dtype(expectation: Expectation, kind: str, requested: Requested, observed: list[str], adapted: bool) -> Check:
    what = {"communication": "gradients are reduced in", "linear layers": "linear layers compute in"}.get(
        kind, f"{kind} are"
    )
    return checked(
        "dtypes",
        requested,
        observed,
        observed == [requested.value],
        kept=f"{what} {requested.value}",
        broken=f"{what} {' and '.join(observed)}, but the config asks for {requested.value}",
        help=spelling(expectation, requested),
        adapted=adapted,
    )


def loss(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Whether the loss is finite."""
    if isinstance(run, ScriptRun) and run.lacks_backward:
        yield skipped("loss", expectation.dtype.key, "the script makes its backward passes without DeepSpeed")
        return
    steps = list(zip(*([step.loss for step in one.steps] for one in run.train), strict=True))  # by step, of each rank
    bad = [loss for step in steps for loss in step if not math.isfinite(loss)][:1]
    number = sum(not all(map(math.isfinite, step)) for step in steps)
    kind = "not a number" if any(map(math.isnan, bad)) else "infinite"
    yield checked(
        "loss",
        Requested("finite", expectation.dtype.key),
        [step[0] for step in steps],
        not bad,
        kept=f"the loss of all {len(steps)} steps is finite",
        broken=f"the loss of {number} of {len(steps)} steps is {kind}",
        help="Check the labels (a batch whose labels are all -100 has no loss), the learning rate, its warm-up, and "
        "the precision."
        if isinstance(run, ScriptRun)
        else "The model is small and its data is generated, so the config is the cause. Check the learning rate, its "
        "warm-up, and the precision.",
    )


def overflow(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """A loss scale that makes DeepSpeed skip every step; a dynamic one falls by itself."""
    if expectation.dtype.value != "float16":
        return
    steps = run.train[0].steps
    skipped = sum(step.is_skipped for step in steps)
    scales = [step.loss_scale for step in steps]
    key = (
        expectation.key("fp16", "loss_scale")
        if expectation.is_loss_scale_static
        else expectation.key("fp16", "initial_scale_power")
    )
    is_static = expectation.is_loss_scale_static
    is_broken = skipped > 0 if is_static else skipped == len(steps)
    yield checked(
        "overflow",
        Requested("steps that are made", key or expectation.dtype.key),
        f"{skipped} of {len(steps)} skipped",
        not is_broken,
        unit="steps",
        bad="fail" if is_static else "warn",
        kept=f"{len(steps) - skipped} of {len(steps)} steps were made"
        + (f", and {skipped} skipped while the loss scale fell" if skipped else ""),
        broken=f"{'all' if skipped == len(steps) else f'{skipped} of'} {len(steps)} steps overflowed and were skipped: "
        "the loss scale "
        + (
            f"stays at {as_power(scales[-1])}, so "
            f"{'no step will ever be made' if skipped == len(steps) else 'every step that overflows is skipped'}"
            if is_static
            else f"{_course(scales)} and must fall further"
        ),
        help="Set `fp16.loss_scale` to 0 for a dynamic scale, or to a smaller power of two."
        if is_static
        else "Set `fp16.initial_scale_power` to 16 or less, so that the first steps are not skipped.",
        adapted="fp16.enabled" in run.adapted,
    )


def _course(scales: list[float | None]) -> str:
    first, last = as_power(scales[0]), as_power(scales[-1])
    return f"stays at {first}" if first == last else f"fell from {first} to {last}"


def as_power(scale: float | None) -> str:
    """A loss scale as a power of two, if it is one."""
    power = math.log2(scale) if scale else 0.5
    return f"2^{power:.0f}" if power.is_integer() else f"{scale or 0:g}"


def loss_scale(expectation: Expectation, run: ObservedRun) -> Iterator[Check]:
    """Gradients are divided by the loss scale, so the loss must be multiplied by it."""
    found = _scalings(run)
    if expectation.dtype.value != "float16" or not found:
        return
    applied, divisor = next((pair for pair in found if not _is_scaled(*pair)), found[0])
    key = expectation.key("fp16", "loss_scale") if expectation.is_loss_scale_static else None
    yield checked(
        "loss-scale",
        Requested(divisor, key or expectation.dtype.key),
        applied,
        is_scaled(run),
        kept=f"the loss is multiplied by {divisor:g}, and the gradients are divided by the same number",
        broken=f"the loss is multiplied by {applied:g}, but the gradients are divided by {divisor:g}: they are "
        f"{divisor / applied if applied else math.inf:g} times too small",
        help="Set `zero_optimization.stage` to 1, or use bf16. DeepSpeed does not scale the loss at stage 0."
        if run.engine.stage == 0
        else "",
        adapted="fp16.enabled" in run.adapted,
    )


def is_scaled(run: ObservedRun) -> bool:
    """Whether the loss of every step is multiplied by the number that divides its gradients."""
    return all(_is_scaled(*pair) for pair in _scalings(run))


def _scalings(run: ObservedRun) -> list[tuple[float, float]]:
    """The factor of each loss and the divisor of its gradients; a loss in fp16 shows no scale above 65,504."""
    every = (pair for one in run.train for pair in one.scalings)
    return [(applied, divisor) for applied, divisor in every if math.isfinite(applied)]


def _is_scaled(applied: float, divisor: float) -> bool:
    return math.isclose(applied, divisor, rel_tol=ROUNDED)

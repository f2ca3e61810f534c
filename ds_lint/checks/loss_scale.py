"""Rules about the loss scale of fp16: whether DeepSpeed applies it, where it starts, whether it is dynamic (DS4xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import RISK, WRONG_RESULT, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import optimizer_constructor, with_passed_optimizer
from ds_lint.semantics.features import bf16_section, is_on, number_of, zero_stage
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

FP16 = "fp16"
_FITS = 16  # a gradient of 1, scaled by 2^16, exceeds the largest fp16 number
_HIGH = 20  # from here on DeepSpeed skips at least a handful of steps
_TOO_LARGE = 63  # torch multiplies by integers of 64 bits


@rule("DS405", "dynamic-loss-scale", severity="error", effects=("rejected",), keys=(FP16,))
def dynamic_loss_scale(config: Config) -> Iterator[Problem]:
    """A window or a minimum of 0 or less for a dynamic loss scale."""
    scale = config.node(FP16, "loss_scale")
    if not is_on(config, FP16, "enabled") or (scale is not None and scale.value != "auto" and number_of(scale)):
        return
    is_checked = config.knowledge.does("dynamic-loss-scale-is-checked")
    for name in ("loss_scale_window", "min_loss_scale") if is_checked else ("loss_scale_window",):
        member = config.member(FP16, name)
        value = number_of(member.value) if member else None
        if member is None or value is None or value > 0 or (value and not is_checked):
            continue
        yield Problem(
            (FP16, name),
            member.value.span,
            f"`{name}` is {value:g}, but a dynamic loss scale needs a value above 0: "
            + ("DeepSpeed rejects the config" if is_checked else "the first step divides by it and raises"),
            rejected("parse" if is_checked else "train"),
            help=f"Delete `{name}` to use DeepSpeed's default, or set `loss_scale` to a number above 0.",
            label="not above 0",
            fix=edits.deletion(config, (FP16, name), "unsafe"),
        )


_MOST_POWER_IN_PRINT = 14284  # of 2: Python prints at most 4300 digits, and older releases print the number


@rule("DS408", "initial-loss-scale-too-large", severity="error", effects=("rejected",), keys=(FP16,))
def initial_loss_scale_too_large(config: Config) -> Iterator[Problem]:
    """An initial loss scale that torch cannot multiply the loss by, or that does not fit into a float."""
    member = config.member(FP16, "initial_scale_power")
    power = number_of(member.value) if member else None
    scale = config.node(FP16, "loss_scale")
    stage = zero_stage(config)
    if member is None or power is None or stage is None or not is_on(config, FP16, "enabled"):
        return
    if scale is not None and scale.value != "auto" and number_of(scale):
        return  # a static loss scale: DeepSpeed does not use the power
    section = config.knowledge.find((FP16,))
    if member.value.kind == "float" and section is not None and not section.strict:
        return  # pydantic does not convert it to an integer, and torch can multiply by a float
    is_scaled = stage != 0 or config.knowledge.does("loss-is-scaled-at-stage-0")
    largest = _TOO_LARGE if is_scaled else 1023
    if power > largest:
        is_printed = section is not None and not section.strict and power > _MOST_POWER_IN_PRINT
        yield Problem(
            (FP16, "initial_scale_power"),
            member.value.span,
            f"`initial_scale_power` is {power:g}, and a loss scale of 2^{power:g} is too large at stage {stage}: "
            f"{'deepspeed.initialize' if is_printed else 'the first step'} raises" + with_passed_optimizer(config),
            rejected("initialize" if is_printed else "train"),
            help="Set it to 16, the default of newer releases, or delete it.",
            label=f"at most {largest}",
            fix=edits.replacement(config, (FP16, "initial_scale_power"), "16", "unsafe"),
        )


@rule("DS409", "static-loss-scale-at-stage-0", severity="error", effects=("rejected",), keys=(FP16,))
def static_loss_scale_at_stage_0(config: Config) -> Iterator[Problem]:
    """A static loss scale with FusedAdam and without ZeRO: up to 0.17.0 the wrapper gets no timers."""
    member = config.member(FP16, "loss_scale")
    if member is None or not config.knowledge.does("static-loss-scale-trips-fused-fp16") or zero_stage(config) != 0:
        return
    constructor = optimizer_constructor(config)
    if constructor is None or constructor.name != "FusedAdam" or not is_on(config, FP16, "enabled"):
        return
    if member.value.value != "auto" and number_of(member.value):
        yield Problem(
            (FP16, "loss_scale"),
            member.value.span,
            f"DeepSpeed {config.knowledge.deepspeed} does not support a static loss scale without ZeRO: "
            "the first step raises",
            rejected("train"),
            help="Set `loss_scale` to 0, set `zero_optimization.stage` to 1, or upgrade to "
            f"DeepSpeed {config.knowledge.ended('static-loss-scale-trips-fused-fp16')}. The step uses timers that were "
            "never created.",
            label="static",
            fix=edits.replacement(config, (FP16, "loss_scale"), "0", "unsafe"),
        )


@rule("DS411", "fp16-without-zero", severity="warning", effects=("wrong-result",), keys=(FP16,))
def fp16_without_zero(config: Config) -> Iterator[Problem]:
    """fp16 at stage 0: DeepSpeed does not scale the loss, but divides the gradients by the scale.

    Source: ``DeepSpeedEngine.backward`` scales for a ``ZeROOptimizer`` only; ``FP16_Optimizer`` and
    ``FP16_UnfusedOptimizer`` do not inherit from it, and their ``step`` divides by ``cur_scale``.
    """
    member = config.member(FP16, "enabled")
    if member is None or not _is_fp16(config) or zero_stage(config) != 0:
        return
    if config.knowledge.does("loss-is-scaled-at-stage-0") or is_on(config, bf16_section(config), "enabled"):
        return  # fp16-and-bf16
    scale = _static_scale(config)
    if scale == 1:
        return
    power = number_of(node) if (node := config.node(FP16, "initial_scale_power")) else None
    divisor = f"{scale:g}" if scale else f"2^{power if power is not None else 16:g} or more"
    yield Problem(
        (FP16, "enabled"),
        member.value.span,
        f"without ZeRO, DeepSpeed {config.knowledge.deepspeed} does not scale the loss: "
        f"gradients are {divisor} times too small",
        WRONG_RESULT,
        help="Set `zero_optimization.stage` to 1, enable `bf16` instead, or set `fp16.loss_scale` to 1. "
        "DeepSpeed divides the gradients by the loss scale without multiplying the loss by it.",
        label="gradients are too small",
    )


@rule("DS412", "high-initial-loss-scale", severity="info", effects=("risk",), keys=(FP16,))
def high_initial_loss_scale(config: Config) -> Iterator[Problem]:
    """An initial loss scale far above the range of fp16, which costs a skipped step for each power of two."""
    member = config.member(FP16, "initial_scale_power")
    power = number_of(member.value) if member else None
    if member is None or power is None or not _HIGH <= power <= _TOO_LARGE or not _is_fp16(config):
        return
    if _static_scale(config) or not zero_stage(config):
        return
    hysteresis = number_of(node) if (node := config.node(FP16, "hysteresis")) else None
    skipped = int(power - _FITS + (2 if hysteresis is None else max(hysteresis, 1)) - 1)
    yield Problem(
        (FP16, "initial_scale_power"),
        member.value.span,
        f"the loss scale starts at 2^{power:g}, but fp16 ends at 2^{_FITS}: DeepSpeed skips about "
        f"{skipped} steps before it trains",
        RISK,
        help=f"Set it to {_FITS}. A higher start does not prevent overflows: steps are skipped while the scale falls.",
        label=f"about {skipped} skipped steps",
    )


@rule("DS413", "static-loss-scale", severity="info", effects=("risk",), keys=(FP16,))
def static_loss_scale(config: Config) -> Iterator[Problem]:
    """A loss scale that never changes, even if the gradients overflow."""
    member = config.member(FP16, "loss_scale")
    scale = _static_scale(config)
    if member is None or not scale or not _is_fp16(config) or not zero_stage(config):
        return
    yield Problem(
        (FP16, "loss_scale"),
        member.value.span,
        f"the loss scale stays at {scale:g}: "
        + (
            "DeepSpeed skips every step whose gradients overflow, without an error"
            if scale > 1
            else "gradients below 6e-8 become 0 in fp16, and their updates are lost without an error"
        ),
        RISK,
        help="Set it to 0 for a dynamic loss scale."
        + (" A static one does not fall at an overflow." if scale > 1 else ""),
        label="never changes",
    )


def _is_fp16(config: Config) -> bool:
    """Whether fp16 is enabled, by the config or by the Trainer, which fills in its "auto"."""
    enabled = config.node(FP16, "enabled")
    if enabled is not None and enabled.value == AUTO and config.stack == "trainer":
        argument = config.argument("fp16")
        return argument is not None and argument.value is True
    return is_on(config, FP16, "enabled")


def _static_scale(config: Config) -> float:
    """The static loss scale, or 0 if the loss scale is dynamic."""
    node = config.node(FP16, "loss_scale")
    return (number_of(node) or 0) if node is not None and node.value != AUTO else 0

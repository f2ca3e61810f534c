"""Rules about the loss scale of fp16: whether it is applied, where it starts, whether it moves (DS4xx)."""

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
_FITS = 16  # 2^16 is the power from which on fp16 itself has no number for a gradient of 1
_HIGH = 20  # from here on at least a handful of steps is skipped
_TOO_LARGE = 63  # torch multiplies by whole numbers of 64 bits


@rule("DS405", "dynamic-loss-scale", severity="error", effects=("rejected",), keys=(FP16,))
def dynamic_loss_scale(config: Config) -> Iterator[Problem]:
    """A window or a floor of 0 or less for a loss scale that moves."""
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
            f"a loss scale that moves needs a `{name}` above 0, and it is {value:g}: "
            + ("DeepSpeed refuses the config" if is_checked else "the first step divides by it and raises"),
            rejected("parse" if is_checked else "train"),
            help=f"Delete `{name}` to get DeepSpeed's default, or set `loss_scale` to a number above 0.",
            label="not above 0",
            fix=edits.deletion(config, (FP16, name), "unsafe"),
        )


_MOST_POWER_IN_PRINT = 14284  # of 2: Python writes no number of more than 4300 digits, and older releases print it


@rule("DS408", "initial-loss-scale-too-large", severity="error", effects=("rejected",), keys=(FP16,))
def initial_loss_scale_too_large(config: Config) -> Iterator[Problem]:
    """A first loss scale that torch cannot multiply the loss by, or that is more than a float holds."""
    member = config.member(FP16, "initial_scale_power")
    power = number_of(member.value) if member else None
    scale = config.node(FP16, "loss_scale")
    stage = zero_stage(config)
    if member is None or power is None or stage is None or not is_on(config, FP16, "enabled"):
        return
    if scale is not None and scale.value != "auto" and number_of(scale):
        return  # a static loss scale: nobody looks at the power
    section = config.knowledge.find((FP16,))
    if member.value.kind == "float" and section is not None and not section.strict:
        return  # no pydantic makes it a whole number, and by a float torch multiplies
    is_scaled = stage != 0 or config.knowledge.does("loss-is-scaled-at-stage-0")
    largest = _TOO_LARGE if is_scaled else 1023
    if power > largest:
        is_printed = section is not None and not section.strict and power > _MOST_POWER_IN_PRINT
        yield Problem(
            (FP16, "initial_scale_power"),
            member.value.span,
            f"the loss scale starts at 2 to the power of `initial_scale_power`, and 2^{power:g} is too large a number "
            f"for stage {stage}: {'deepspeed.initialize' if is_printed else 'the first step'} raises"
            + with_passed_optimizer(config),
            rejected("initialize" if is_printed else "train"),
            help="Write 16, the default of newer releases, or delete `initial_scale_power`.",
            label=f"at most {largest}",
            fix=edits.replacement(config, (FP16, "initial_scale_power"), "16", "unsafe"),
        )


@rule("DS409", "static-loss-scale-at-stage-0", severity="error", effects=("rejected",), keys=(FP16,))
def static_loss_scale_at_stage_0(config: Config) -> Iterator[Problem]:
    """A loss scale that stays, with FusedAdam and without ZeRO: up to 0.17.0 the wrapper gets no timers."""
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
            f"with a static loss scale and without ZeRO, DeepSpeed {config.knowledge.deepspeed} trips over timers that "
            "it did not make: the first step raises",
            rejected("train"),
            help="Set `loss_scale` to 0, set `zero_optimization.stage` to 1, or upgrade to "
            f"DeepSpeed {config.knowledge.ended('static-loss-scale-trips-fused-fp16')}.",
            label="static",
            fix=edits.replacement(config, (FP16, "loss_scale"), "0", "unsafe"),
        )


@rule("DS411", "fp16-without-zero", severity="warning", effects=("wrong-result",), keys=(FP16,))
def fp16_without_zero(config: Config) -> Iterator[Problem]:
    """fp16 at stage 0, where the loss is not scaled, and the gradients are divided by the scale all the same.

    Source: ``DeepSpeedEngine.backward`` scales for a ``ZeROOptimizer`` only, which ``FP16_Optimizer`` and
    ``FP16_UnfusedOptimizer`` are not; their ``step`` divides by ``cur_scale``.
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
    divisor = f"{scale:g}" if scale else f"2^{power if power is not None else 16:g} and more"
    yield Problem(
        (FP16, "enabled"),
        member.value.span,
        f"without ZeRO, DeepSpeed {config.knowledge.deepspeed} does not multiply the loss by the loss scale, and still "
        f"divides the gradients by it: they come out {divisor} times too small",
        WRONG_RESULT,
        help='Set `zero_optimization.stage` to 1, switch on "bf16" instead, or set `fp16.loss_scale` to 1.',
        label="gradients are too small",
    )


@rule("DS412", "high-initial-loss-scale", severity="info", effects=("risk",), keys=(FP16,))
def high_initial_loss_scale(config: Config) -> Iterator[Problem]:
    """A first loss scale far beyond what fp16 holds, which costs a skipped step for each power of two."""
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
        f"the loss scale starts at 2^{power:g}, and fp16 ends at 2^{_FITS}: DeepSpeed skips about {skipped} steps, "
        "halving it each time, before the first that trains",
        RISK,
        help=f"Write {_FITS}: a higher start is no remedy for overflows, it only postpones the end.",
        label=f"about {skipped} skipped steps",
    )


@rule("DS413", "static-loss-scale", severity="info", effects=("risk",), keys=(FP16,))
def static_loss_scale(config: Config) -> Iterator[Problem]:
    """A loss scale that stays where it is, whatever the gradients do."""
    member = config.member(FP16, "loss_scale")
    scale = _static_scale(config)
    if member is None or not scale or not _is_fp16(config) or not zero_stage(config):
        return
    yield Problem(
        (FP16, "loss_scale"),
        member.value.span,
        f"the loss scale stays at {scale:g}: "
        + (
            "a step whose gradients overflow with it is skipped, and if they keep overflowing, so is every step to the "
            "end of the run, without an error"
            if scale > 1
            else "gradients below 6e-8 become 0 in fp16, and what was trained with them is lost without an error"
        ),
        RISK,
        help="Write 0 for a loss scale that adapts itself.",
        label="never moves",
    )


def _is_fp16(config: Config) -> bool:
    """Whether fp16 is on, by the config or by the Trainer that fills its "auto"."""
    enabled = config.node(FP16, "enabled")
    if enabled is not None and enabled.value == AUTO and config.stack == "trainer":
        argument = config.argument("fp16")
        return argument is not None and argument.value is True
    return is_on(config, FP16, "enabled")


def _static_scale(config: Config) -> float:
    """The loss scale that stays, or 0 where it moves."""
    node = config.node(FP16, "loss_scale")
    return (number_of(node) or 0) if node is not None and node.value != AUTO else 0

"""Advice and information about speed and memory; off by default (DS8xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import ADVICE, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.constructors import offloads_optimizer
from ds_lint.semantics.features import certain_dtype, is_on, is_truthy, named_accumulation_dtype, number_of, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

ZERO = "zero_optimization"
_GB = 10**9


@rule("DS840", "large-communication-buffers", severity="info", effects=("advice",), keys=(ZERO,), default=False)
def large_communication_buffers(config: Config) -> Iterator[Problem]:
    """``overlap_comm`` with two reduce buckets that use a gigabyte or more."""
    member = config.member(ZERO, "overlap_comm")
    if member is None or not is_on(config, ZERO, "overlap_comm") or zero_stage(config) not in (1, 2):
        return
    node = config.node(ZERO, "reduce_bucket_size")
    bucket = number_of(node) if node is not None else _default(config, "reduce_bucket_size")
    if bucket is None:
        return
    width = 4 if certain_dtype(config) == "fp32" or _accumulates_in_fp32_at_stage_1(config) else 2
    size = 2 * bucket * width
    if size >= _GB:
        yield Problem(
            (ZERO, "overlap_comm"),
            member.value.span,
            f"`overlap_comm` keeps two reduce buckets of {bucket:g} gradients on the GPU: {size / _GB:.1f} GB at "
            f"{width} bytes per gradient",
            ADVICE,
            help="Lower `reduce_bucket_size` if memory is short: 5e7 uses a tenth of the default.",
            label=f"{size / _GB:.1f} GB",
        )


def _accumulates_in_fp32_at_stage_1(config: Config) -> bool:
    """Whether the buckets of a 16-bit model hold fp32: stage 1 reduces the accumulated gradients.

    Source: ``_gradient_reduction_buffer_dtype`` in ``deepspeed/runtime/zero/stage_1_and_2.py``.
    """
    return zero_stage(config) == 1 and named_accumulation_dtype(config) == "fp32"


@rule("DS841", "extreme-size", severity="info", effects=("advice",), keys=(ZERO,), default=False)
def extreme_size(config: Config) -> Iterator[Problem]:
    """Limits of stage 3 that are 0, which DeepSpeed does not read as "no limit"."""
    if zero_stage(config) != 3:
        return
    for name, meaning in (
        ("max_live_parameters", "DeepSpeed prefetches nothing, and every module waits for its parameters"),
        ("sub_group_size", "every parameter is a separate group with a separate optimizer step"),
    ):
        for spelling in (name, f"stage3_{name}"):
            member = config.member(ZERO, spelling)
            if member is not None and number_of(member.value) == 0:
                yield Problem(
                    (ZERO, spelling),
                    member.value.span,
                    f"`{spelling}` is 0: {meaning}",
                    ADVICE,
                    help="Set it to 1e9, the default, unless memory is short.",
                    label="slow",
                )


@rule(
    "DS842",
    "profiler-left-on",
    severity="info",
    effects=("advice",),
    keys=("flops_profiler", "wall_clock_breakdown"),
    default=False,
)
def profiler_left_on(config: Config) -> Iterator[Problem]:
    """A profiler whose timers wait for the GPU in every step."""
    for path in (("flops_profiler", "enabled"), ("wall_clock_breakdown",)):
        member = config.member(*path)
        if member is None or not is_on(config, *path):
            continue
        yield Problem(
            path,
            member.value.span,
            "`wall_clock_breakdown` reads its timers in every step, which waits for the GPU and logs a line"
            if path == ("wall_clock_breakdown",)
            else "`flops_profiler` turns on `wall_clock_breakdown`, whose timers wait for the GPU in every step",
            ADVICE,
            help="Set it to false when you have the numbers.",
            label="on",
        )
        return


@rule("DS843", "torch-adam", severity="info", effects=("advice",), keys=("optimizer",), default=False)
def torch_adam(config: Config) -> Iterator[Problem]:
    """Adam of torch, although DeepSpeed has a faster one."""
    path = ("optimizer", "params", "torch_adam")
    member = config.member(*path)
    if member is None or not is_truthy(member.value):
        return
    if str(config.value("optimizer", "type")).lower() not in ("adam", "adamw"):
        return
    ours = "DeepSpeedCPUAdam" if offloads_optimizer(config) else "FusedAdam"
    yield Problem(
        path,
        member.value.span,
        f"`torch_adam` selects torch's Adam instead of DeepSpeed's optimized {ours}",
        ADVICE,
        help="Delete `torch_adam`, unless the machine cannot build DeepSpeed's own Adam.",
        label="slower",
    )


def _default(config: Config, name: str) -> float | None:
    known = config.knowledge.find((ZERO, name))
    default = known.facts.get("default") if known is not None else None
    return default if isinstance(default, (int, float)) else None

"""Rules about the Trainer and Accelerate that need nothing but the config (DS60x)."""

from __future__ import annotations

from ds_lint.checks.problem import Problem, rejected
from ds_lint.rule import rule
from ds_lint.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.config import Config


@rule("DS601", "zero-section-missing", severity="error", effects=("rejected",))
def zero_section_missing(config: Config) -> Iterator[Problem]:
    """No ``zero_optimization``, without which Accelerate does not start."""
    stacks = [stack for stack in config.stacks if stack != "deepspeed"]
    if "deepspeed" in config.stacks or config.node("zero_optimization") is not None:
        return
    start = config.root.span.start
    yield Problem(
        None,
        Span(start, min(start + 1, config.root.span.end)),
        "the Trainer and Accelerate refuse a config without `zero_optimization`",
        dict.fromkeys(stacks, rejected("initialize")),
        help='Add "zero_optimization": {"stage": 0}, or the stage that the run is meant to have.',
        label="no `zero_optimization`",
    )


@rule("DS602", "offload-null", severity="error", effects=("rejected",), keys=("zero_optimization",))
def offload_null(config: Config) -> Iterator[Problem]:
    """``offload_optimizer: null``, into which Accelerate looks without asking whether it is there."""
    member = config.member("zero_optimization", "offload_optimizer")
    stacks = [stack for stack in config.stacks if stack != "deepspeed"]
    if member is None or member.value.kind != "null" or config.node("optimizer") is not None or not stacks:
        return
    yield Problem(
        ("zero_optimization", "offload_optimizer"),
        member.value.span,
        "Accelerate looks for a device in `offload_optimizer` where the script brings the optimizer, "
        "and raises at null",
        dict.fromkeys(stacks, rejected("initialize")),
        help="Delete `offload_optimizer`.",
        label="null",
    )

"""What DeepSpeed's schedulers do with the learning rate (deepspeed/runtime/lr_schedules.py)."""

from __future__ import annotations

from ds_lint.semantics.constructors import scheduler_constructor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config

# What the Trainer calls its own schedules that have the same course.
TRAINERS_NAMES = {
    "WarmupLR": ("constant_with_warmup", "constant"),
    "WarmupDecayLR": ("linear",),
    "WarmupCosineLR": ("cosine",),
}
# They write a learning rate over the one of the optimizer before the first step; WarmupLR where it has its maximum.
SET_THE_RATE = ("LRRangeTest", "OneCycle", "WarmupDecayLR")
MAY_SET_THE_RATE = (*SET_THE_RATE, "WarmupLR")


def sets_the_rate(config: Config) -> bool:
    """Whether the scheduler of the config replaces the learning rate of the optimizer before the first step."""
    scheduler = scheduler_constructor(config)
    if scheduler is None:
        return False
    maximum = config.node("scheduler", "params", "warmup_max_lr")
    has_maximum = maximum is not None and maximum.kind != "null"
    return scheduler.name in SET_THE_RATE or (scheduler.name == "WarmupLR" and has_maximum)

"""Rules about the learning rate, its schedule, and `optimizer` and `scheduler` sections without a type (DS5xx)."""

from __future__ import annotations

from ds_lint.checks.values import nearest, shown
from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import ADVICE, OVERRIDDEN, RISK, WRONG_RESULT, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.knowledge.coercion import refusal
from ds_lint.semantics.constructors import optimizer_constructor, scheduler_constructor, with_passed_optimizer
from ds_lint.semantics.features import model_dtype, number, zero_stage
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.diagnostics.problem import Outcome
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import Node

LR = ("optimizer", "params", "lr")
PEAK = ("scheduler", "params", "warmup_max_lr")
WARM_UP = ("scheduler", "params", "warmup_num_steps")
TOTAL = ("scheduler", "params", "total_num_steps")


@rule("DS508", "torch-scheduler-on-wrapped-optimizer", severity="error", effects=("rejected",), keys=("scheduler",))
def torch_scheduler_on_wrapped_optimizer(config: Config) -> Iterator[Problem]:
    """A torch scheduler, which rejects the optimizer that DeepSpeed wraps for ZeRO, fp16 or bf16."""
    constructor = scheduler_constructor(config)
    member = config.member("scheduler", "type")
    if constructor is None or member is None or not constructor.is_torch:
        return
    wrapped = zero_stage(config) or model_dtype(config) != "fp32"
    if wrapped:
        yield Problem(
            ("scheduler", "type"),
            member.value.span,
            f"torch's {constructor.name} rejects an optimizer wrapped for "
            f"{'ZeRO' if zero_stage(config) else model_dtype(config)}: deepspeed.initialize raises"
            + with_passed_optimizer(config),
            rejected("initialize"),
            help="Use WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest, "
            "or build the scheduler in the script.",
            label="torch's scheduler",
        )


@rule("DS513", "unknown-warmup-type", severity="warning", effects=("wrong-result",), keys=("scheduler",))
def unknown_warmup_type(config: Config) -> Iterator[Problem]:
    """An unknown ``warmup_type``, which DeepSpeed replaces with ``log``."""
    constructor = scheduler_constructor(config)
    member = config.member("scheduler", "params", "warmup_type")
    if constructor is None or constructor.is_torch or member is None or not constructor.knows("warmup_type"):
        return
    facts = constructor.facts("warmup_type")
    if facts and refusal(facts, False, member.value, member.value.kind, member.value.value):
        return  # refused-parameter
    if member.value.kind == "string" and member.value.value not in ("log", "linear", AUTO):
        yield Problem(
            ("scheduler", "params", "warmup_type"),
            member.value.span,
            f"unknown `warmup_type` {shown(config, member.value)}: {constructor.name} logs a warning and warms up "
            "logarithmically",
            WRONG_RESULT,
            help='Set it to "linear" or "log".',
            label="treated as log",
            fix=nearest(config, ("scheduler", "params", "warmup_type"), str(member.value.value), ["log", "linear"])
            or edits.replacement(config, ("scheduler", "params", "warmup_type"), '"log"', "unsafe"),
        )


@rule("DS518", "schedule-is-all-warm-up", severity="warning", effects=("wrong-result",), keys=("scheduler",))
def schedule_is_all_warm_up(config: Config) -> Iterator[Problem]:
    """A warm-up that is at least as long as the schedule, so the learning rate never decays.

    Source: ``WarmupDecayLR`` and ``WarmupCosineLR`` in ``deepspeed/runtime/lr_schedules.py``, which warn if the
    warm-up is longer than the schedule, and are silent if both are equal.
    """
    scheduler = scheduler_constructor(config)
    total = number(config.value(*TOTAL))
    if scheduler is None or scheduler.is_torch or not scheduler.knows("warmup_num_steps") or total is None:
        return
    member = config.member(*WARM_UP)
    warm_up = number(member.value.value if member is not None else scheduler.default("warmup_num_steps"))
    total_node = config.node(*TOTAL)
    if warm_up is None or total_node is None or not 0 < total <= warm_up:
        return
    is_equal = total == warm_up
    yield Problem(
        WARM_UP if member is not None else TOTAL,
        member.value.span if member is not None else total_node.span,
        f"`warmup_num_steps` {warm_up:g}{'' if member is not None else ' (default)'} "
        f"{'equals' if is_equal else 'exceeds'} `total_num_steps` {total:g}: the learning rate never "
        f"{'falls' if is_equal else 'reaches its maximum'}",
        WRONG_RESULT,
        help=f"Set `warmup_num_steps` below {total:g}, or set `total_num_steps` to the number of optimizer steps of "
        f"the whole run. The learning rate of {scheduler.name} rises until the end of the run.",
        label="all steps are warm-up",
        related=[Related(total_node.span, "total steps")] if member is not None else [],
    )


@rule(
    "DS519",
    "learning-rate-of-the-scheduler",
    severity="error",
    effects=("overridden", "rejected"),
    keys=("scheduler",),
)
def learning_rate_of_the_scheduler(config: Config) -> Iterator[Problem]:
    """A warm-up to a different learning rate than the optimizer's or the Trainer's, which then has no effect.

    ``WarmupLR`` and ``WarmupDecayLR`` in ``deepspeed/runtime/lr_schedules.py`` set the learning rate of every
    parameter group, starting before the first step.
    """
    scheduler = scheduler_constructor(config)
    named = config.node("scheduler", "type")
    if scheduler is None or named is None or scheduler.is_torch or not scheduler.knows("warmup_max_lr"):
        return
    written = config.node(*PEAK)
    peak = number(written.value if written is not None else scheduler.default("warmup_max_lr"))
    lr = config.node(*LR)
    outcomes = {} if peak is None else _where_it_is_overridden(config, lr, written, peak)
    if not outcomes or peak is None:
        return
    rate = number(lr.value) if lr is not None else None
    source = "`warmup_max_lr`" if written is not None else "its default"
    nothing = f"{'the learning rate of the run' if rate is None else f'`lr` {rate:g}'} has no effect"
    consequences = [nothing] if OVERRIDDEN in outcomes.values() else []
    other = "" if consequences or rate is None else f", but `lr` is {rate:g}"
    if len(set(outcomes.values())) > len(consequences):
        consequences.append("the Trainer compares both with `learning_rate` and raises")
    yield Problem(
        LR if lr is not None else ("scheduler", "type"),
        lr.span if lr is not None else named.span,
        f"{scheduler.name} warms up to {source} {peak:g}{other}: " + ", and ".join(consequences),
        outcomes,
        help=(
            'Set both to the same number, or to "auto" under the Trainer.'
            if written is not None
            else 'Add `warmup_max_lr` to `scheduler.params` with the learning rate, or with "auto" under the Trainer.'
        )
        + f" {scheduler.name} sets the learning rate itself.",
        label=f"{peak:g} is used",
        fix=edits.set_to_auto(config, PEAK, "unsafe") if written is None else None,
        related=[Related(written.span, "the learning rate after the warm-up")] if written is not None else [],
    )


def _where_it_is_overridden(config: Config, lr: Node | None, written: Node | None, peak: float) -> dict[Stack, Outcome]:
    """The outcome on every stack whose learning rate differs from the scheduler's."""
    rate = number(lr.value) if lr is not None else None
    if rate is not None:
        outcomes = {} if rate == peak else dict.fromkeys(config.stacks, OVERRIDDEN)
    elif written is None and (config.node("optimizer") is None or (lr is not None and lr.value == AUTO)):
        outcomes = {stack: OVERRIDDEN for stack in config.stacks if stack != "deepspeed"}
    else:
        outcomes = {}
    if "trainer" in outcomes and written is not None:
        del outcomes["trainer"]
        if config.facts.training is None:  # else trainer-mismatch
            outcomes["trainer"] = rejected("initialize")
    return outcomes


@rule("DS520", "logarithmic-warm-up", severity="info", effects=("advice",), keys=("scheduler",), default=False)
def logarithmic_warm_up(config: Config) -> Iterator[Problem]:
    """A scheduler without ``warmup_type`` warms up logarithmically; the Trainer's schedules warm up linearly."""
    scheduler, named = scheduler_constructor(config), config.node("scheduler", "type")
    if scheduler is None or named is None or scheduler.is_torch or scheduler.default("warmup_type") != "log":
        return
    if config.node("scheduler", "params", "warmup_type") is None:
        yield Problem(
            ("scheduler", "type"),
            named.span,
            f"without `warmup_type`, {scheduler.name} warms up logarithmically, but the Trainer's schedules linearly",
            ADVICE,
            help='Add "warmup_type": "linear" to `scheduler.params`, or "log" to make the default explicit.',
            label="warms up logarithmically",
            fix=edits.written(config, ("scheduler", "params", "warmup_type"), "linear", "unsafe"),
        )


@rule("DS521", "adam-is-adamw", severity="info", effects=("wrong-result",), keys=("optimizer",), default=False)
def adam_is_adamw(config: Config) -> Iterator[Problem]:
    """Type Adam with weight decay, which DeepSpeed decouples unless ``adam_w_mode`` is false.

    Source: ``_configure_basic_optimizer`` in ``deepspeed/runtime/engine.py``.
    """
    named, decay = config.node("optimizer", "type"), config.node("optimizer", "params", "weight_decay")
    if named is None or decay is None or str(named.value).lower() != "adam":
        return
    if optimizer_constructor(config) is None or not (number(decay.value) or decay.value == AUTO):
        return
    if config.node("optimizer", "params", "adam_w_mode") is None:
        yield Problem(
            ("optimizer", "type"),
            named.span,
            f"DeepSpeed builds {named.value} as AdamW: weight decay is subtracted from the weights, not added to the "
            "gradient",
            WRONG_RESULT,
            help='Set `type` to "AdamW", which does the same, or set "adam_w_mode": false in `optimizer.params`.',
            label="built as AdamW",
            fix=edits.replacement(config, ("optimizer", "type"), '"AdamW"', "safe"),
        )


@rule("DS527", "optimizer-without-type", severity="error", effects=("rejected",), keys=("optimizer",))
def optimizer_without_type(config: Config) -> Iterator[Problem]:
    """An ``optimizer`` section without ``type``: the Trainer and Accelerate leave the optimizer to DeepSpeed.

    Sources: ``deepspeed_optim_sched`` in ``transformers/integrations/deepspeed.py``, ``_prepare_deepspeed`` in
    ``accelerate/accelerator.py``.
    """
    section, named, stage = config.member("optimizer"), config.node("optimizer", "type"), zero_stage(config)
    if section is None or section.value.kind != "object" or stage is None or "deepspeed" in config.stacks:
        return
    if named is None or named.kind == "null":
        yield Problem(
            ("optimizer",),
            section.key_span,
            "`optimizer` has no `type`, so DeepSpeed builds no optimizer: "
            + (f"stage {stage} raises without one" if stage in (1, 2) else "the first backward pass raises"),
            rejected("initialize" if stage in (1, 2) else "train"),
            help='Add "type": "AdamW", or delete `optimizer` to train with the optimizer of the script. The Trainer '
            "and Accelerate leave an `optimizer` section to DeepSpeed.",
            label="no `type`",
        )


@rule("DS528", "scheduler-without-type", severity="error", effects=("rejected", "risk"), keys=("scheduler",))
def scheduler_without_type(config: Config) -> Iterator[Problem]:
    """A ``scheduler`` section without ``type``: the Trainer and Accelerate leave the schedule to DeepSpeed.

    Sources: ``deepspeed_optim_sched`` in ``transformers/integrations/deepspeed.py``, ``_get_learning_rate`` in
    ``transformers/trainer.py``, ``DummyScheduler`` in ``accelerate/utils/deepspeed.py``.
    """
    section, named = config.member("scheduler"), config.node("scheduler", "type")
    if section is None or section.value.kind != "object" or "deepspeed" in config.stacks:
        return
    if named is not None and named.kind != "null":
        return
    outcomes: dict[Stack, Outcome] = {}
    consequences = []
    if "trainer" in config.stacks:
        is_read_at_every_step = config.knowledge.stack_does("learning-rate-is-asked-at-every-step")
        outcomes["trainer"] = rejected("train") if is_read_at_every_step else RISK
        when = "the first step" if is_read_at_every_step else "the first log"
        consequences.append(f"{when} of the Trainer raises an AttributeError")
    if "accelerate" in config.stacks:
        outcomes["accelerate"] = rejected("train")
        consequences.append("the first `step()` of Accelerate's DummyScheduler raises an AttributeError")
    yield Problem(
        ("scheduler",),
        section.key_span,
        f"`scheduler` has no `type`, so none is built: {', '.join(consequences)}",
        outcomes,
        help="Add `type`, or delete `scheduler` to get the schedule of "
        + ("`lr_scheduler_type`." if "trainer" in config.stacks else "the script."),
        label="no `type`",
    )

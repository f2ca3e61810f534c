"""Rules about training arguments that the config's optimizer, scheduler or offload overrides or rejects (DS5xx)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import OVERRIDDEN, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.semantics.constructors import (
    evaluates_alone,
    offloads_optimizer,
    optimizer_constructor,
    scheduler_constructor,
)
from ds_lint.semantics.features import is_truthy, model_dtype, number, zero_stage
from ds_lint.semantics.related import given_at
from ds_lint.semantics.schedules import TRAINERS_NAMES
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.problem import Outcome
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.config import Config


@rule("DS517", "lr-scheduler-type-overridden", severity="error", effects=("overridden",), keys=("scheduler",))
def lr_scheduler_type_overridden(config: Config) -> Iterator[Problem]:
    """A ``scheduler`` in the config, which overrides the Trainer's ``lr_scheduler_type``.

    Source: ``deepspeed_optim_sched`` in ``transformers/integrations/deepspeed.py``.
    """
    scheduler, member = scheduler_constructor(config), config.member("scheduler", "type")
    argument = config.argument("lr_scheduler_type")
    if scheduler is None or member is None or argument is None or "trainer" not in config.stacks:
        return
    schedule = str(argument.value).lower()
    if schedule in TRAINERS_NAMES.get(scheduler.name, ()):
        return
    if not _is_explicit(config, "lr_scheduler_type"):
        return  # the default: the config says which schedule is wanted
    stays = ", which never lowers the learning rate" if scheduler.name == "WarmupLR" else ""
    yield Problem(
        ("scheduler", "type"),
        member.value.span,
        f"`scheduler` overrides `lr_scheduler_type` {schedule}: {scheduler.name} runs{stays}",
        {"trainer": OVERRIDDEN},
        help=f"Delete `scheduler` to get the {schedule} schedule"
        + (f', or set `type` to "{like}".' if (like := _deepspeeds(schedule)) else "."),
        label=f"instead of {schedule}",
        fix=edits.deletion(config, ("scheduler",), "unsafe"),
        related=given_at(argument, f"lr_scheduler_type is {schedule}"),
    )


@rule("DS522", "optim-overridden", severity="error", effects=("overridden",), keys=("optimizer",))
def optim_overridden(config: Config) -> Iterator[Problem]:
    """An ``optimizer`` in the config, which overrides the Trainer's ``optim``.

    Source: ``deepspeed_optim_sched`` in ``transformers/integrations/deepspeed.py``.
    """
    optimizer, member = optimizer_constructor(config), config.member("optimizer", "type")
    optim = _optim(config)
    if optimizer is None or member is None or optim is None or "trainer" not in config.stacks:
        return
    name = str(optim.value)
    if _are_alike(str(member.value.value).lower(), name) or (name == "adafactor" and _refuses_adafactor(config)):
        return  # the latter: stack-refuses
    yield Problem(
        ("optimizer", "type"),
        member.value.span,
        f"`optimizer` overrides {name} of the training arguments: {optimizer.name} runs",
        {"trainer": OVERRIDDEN},
        help=f"Delete `optimizer` to train with {name}, or pass `--optim adamw_torch`.",
        label=f"instead of {name}",
        fix=edits.deletion(config, ("optimizer",), "unsafe"),
        related=given_at(optim, f"optim is {name}"),
    )


@rule("DS523", "weight-decay-on-all", severity="info", effects=("overridden",), keys=("optimizer",), default=False)
def weight_decay_on_all(config: Config) -> Iterator[Problem]:
    """An ``optimizer`` in the config gets all parameters in one group, so weight decay applies to biases and norms too.

    ``deepspeed_optim_sched`` in ``transformers/integrations/deepspeed.py`` passes a flat list to ``DummyOptim``, and
    ``Trainer.create_optimizer`` keeps biases and the weights of norms out of weight decay.
    """
    member = config.member("optimizer", "params", "weight_decay")
    optimizer = optimizer_constructor(config)
    if member is None or optimizer is None or optimizer.name == "MuonWithAuxAdam" or "trainer" not in config.stacks:
        return
    decay = number(member.value.value)
    if member.value.value == AUTO:
        argument = config.argument("weight_decay")
        decay = number(argument.value) if argument is not None else None
    if decay:
        yield Problem(
            ("optimizer", "params", "weight_decay"),
            member.value.span,
            f"`optimizer` has one parameter group: weight decay {decay:g} also applies to biases and norms",
            {"trainer": OVERRIDDEN},
            help="Delete `optimizer` to get the Trainer's parameter groups, which exclude both from weight decay.",
            label="applies to all parameters",
        )


# What becomes of the Trainer's optimizers that Accelerate replaces with DeepSpeed's CPU optimizers, run with
# bitsandbytes 0.50.2. AdamW, which stays AdamW, and optimizers that were not tried are not in these lists.
_BECOME_ADAM = (
    "sgd", "rmsprop", "rmsprop_bnb", "rmsprop_bnb_8bit", "rmsprop_bnb_32bit", "lion_8bit", "paged_lion_8bit",
    "adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit",
)  # fmt: skip
_BREAK_WHILE_BUILT = ("adagrad", "lion_32bit", "paged_lion_32bit")
_BREAK_IN_THE_FIRST_STEP = ("adafactor", "ademamix", "ademamix_8bit")
_OF_TORCH = ("sgd", "rmsprop", "adagrad")


@rule(
    "DS524",
    "optim-replaced-by-offload",
    severity="error",
    effects=("overridden", "rejected"),
    keys=("zero_optimization",),
)
def optim_replaced_by_offload(config: Config) -> Iterator[Problem]:
    """``offload_optimizer`` with an ``optim`` that Accelerate replaces with a CPU optimizer of DeepSpeed.

    Source: ``map_pytorch_optim_to_deepspeed`` in ``accelerate/utils/deepspeed.py``.
    """
    optim, member = _optim(config), config.member("zero_optimization", "offload_optimizer")
    force = config.node("zero_force_ds_cpu_optimizer")
    if optim is None or member is None or "trainer" not in config.stacks or not offloads_optimizer(config):
        return
    if evaluates_alone(config):
        return
    if config.node("optimizer") is not None or not _prepares(config):
        return
    if force is not None and not is_truthy(force):
        return
    name = str(optim.value)
    maps = config.knowledge.stack_does("optimizers-are-mapped")
    if "adamw" in name and not maps:
        return  # it became DeepSpeed's AdamW, in 32 bit
    outcome: Outcome = OVERRIDDEN
    consequence, reason = "Adam without decoupled weight decay runs" if maps else "AdamW runs", ""
    if name in _BREAK_WHILE_BUILT and maps:
        outcome, consequence = rejected("initialize"), "trainer.train() raises a TypeError"
        reason = f" The optimizer that replaces {name} cannot be built."
    elif name in _BREAK_IN_THE_FIRST_STEP:
        outcome, consequence = rejected("train"), "the first step raises"
        reason = f" The optimizer that replaces {name} fails on its parameters."
    elif name not in (*_BECOME_ADAM, *_BREAK_WHILE_BUILT):
        return
    yield Problem(
        ("zero_optimization", "offload_optimizer"),
        member.key_span,
        f"with `offload_optimizer`, Accelerate replaces {name} with DeepSpeed's CPU optimizer: {consequence}",
        {"trainer": outcome},
        help=('Set "zero_force_ds_cpu_optimizer": false to keep it, or pass' if name in _OF_TORCH else "Pass")
        + f" `--optim adamw_torch`, which becomes DeepSpeed's AdamW on the CPU.{reason}",
        label=f"replaces {name}",
        fix=edits.setting(config, ("zero_force_ds_cpu_optimizer",), False, "unsafe") if name in _OF_TORCH else None,
        related=given_at(optim, f"optim is {name}"),
    )


@rule("DS525", "adagrad-at-zero", severity="error", effects=("rejected",), keys=("zero_optimization",))
def adagrad_at_zero(config: Config) -> Iterator[Problem]:
    """``optim`` adagrad, whose two parameter groups ZeRO merges into one.

    Sources: ``initialize_optimizer_states`` in ``deepspeed/runtime/zero/stage_1_and_2.py`` and ``stage3.py``
    rebuild torch's Adagrad; ``Trainer.create_optimizer`` in ``transformers/trainer.py`` makes the groups.
    """
    optim, stage = config.argument("optim"), zero_stage(config)
    member = config.member("zero_optimization")
    if optim is None or member is None or not stage or optim.value != "adagrad" or config.stack != "trainer":
        return
    if evaluates_alone(config):
        return
    if config.node("optimizer") is not None or offloads_optimizer(config) or config.node("data_types") is not None:
        return  # optim-overridden, optim-replaced-by-offload; a wider gradient accumulation has its own optimizer
    yield Problem(
        ("zero_optimization",),
        member.key_span,
        f"stage {stage} rebuilds Adagrad with one parameter group, but the Trainer has two: the first step raises an "
        "IndexError",
        {"trainer": rejected("train")},
        help="Use another optimizer, or stage 0. The Trainer has a group with and a group without weight decay.",
        label="rebuilds Adagrad",
        related=given_at(optim, "optim is adagrad"),
    )


@rule("DS526", "schedule-of-wrapped-optimizer", severity="error", effects=("rejected",))
def schedule_of_wrapped_optimizer(config: Config) -> Iterator[Problem]:
    """A schedule that reads the optimizer's ``defaults``, which DeepSpeed's wrapper does not have.

    Source: ``get_polynomial_decay_schedule_with_warmup``, and the two with a minimum, in
    ``transformers/optimization.py``.
    """
    schedule = config.argument("lr_scheduler_type")
    if schedule is None or config.stack != "trainer" or not _asks_for_defaults(config, str(schedule.value)):
        return
    if evaluates_alone(config):
        return
    if config.node("optimizer") is not None or config.node("scheduler") is not None:
        return  # the schedule is built on the optimizer of the config, or not at all
    wraps = f"ZeRO stage {zero_stage(config)}" if zero_stage(config) else model_dtype(config)
    if wraps == "fp32" or not config.knowledge.stack_does("schedules-are-built-on-the-wrapped-optimizer"):
        return
    yield Problem(
        None,
        config.opening,
        f"transformers {config.knowledge.target['transformers']} cannot build the {schedule.value} schedule on "
        "DeepSpeed's optimizer: trainer.train() raises",
        {"trainer": rejected("initialize")},
        help='Add an `optimizer` with "auto" values to the config, so the schedule is built before DeepSpeed wraps the '
        "optimizer, or set another `lr_scheduler_type`"
        + ("." if schedule.value == "polynomial" else ", or set `min_lr_rate` instead of `min_lr`.")
        + f" The optimizer that DeepSpeed wraps for {wraps} has no `defaults`: an AttributeError.",
        label=f"no {schedule.value} schedule without `optimizer`",
        related=given_at(schedule, f"lr_scheduler_type is {schedule.value}"),
    )


def _asks_for_defaults(config: Config, schedule: str) -> bool:
    """Whether a schedule divides by the initial learning rate of the optimizer, or starts from it."""
    if schedule == "polynomial":
        return True
    if schedule not in ("cosine_with_min_lr", "cosine_warmup_with_min_lr"):
        return False
    found = config.argument("lr_scheduler_kwargs")
    given = found.value if found is not None else None
    if isinstance(given, str):
        from json import JSONDecodeError, loads

        try:
            given = loads(given)
        except JSONDecodeError:
            return False
    return isinstance(given, dict) and given.get("min_lr") is not None


_ADAMW = (
    "adamw_hf",
    "adamw_torch",
    "adamw_torch_fused",
    "adamw_torch_xla",
    "adamw_torch_npu_fused",
    "adamw_apex_fused",
)


def _optim(config: Config) -> Argument | None:
    """The optimizer that the training arguments ask for: ``optim``, or the flag ``adafactor``."""
    adafactor, optim = config.argument("adafactor"), config.argument("optim")
    if adafactor is not None and adafactor.value is True:
        from ds_lint.facts.training import Argument

        return Argument("adafactor", adafactor.origin, adafactor.document, adafactor.span)
    if optim is None or not _is_explicit(config, "optim"):
        return None
    is_written = optim.document is not None or config.facts.training.given["optim"].is_flag  # type: ignore[union-attr]
    return optim if is_written or optim.value not in _ADAMW else None  # the default is one of these, by torch's release


def _is_explicit(config: Config, name: str) -> bool:
    from ds_lint.semantics.arguments import is_explicit  # not needed without training arguments

    return is_explicit(config, name)


def _are_alike(kind: str, name: str) -> bool:
    """Whether the optimizer of the config is the one that the Trainer calls by this name."""
    return name in _ADAMW if kind in ("adam", "adamw") else kind == name.removesuffix("_32bit")


def _deepspeeds(schedule: str) -> str | None:
    """DeepSpeed's scheduler with the same curve as one of the Trainer's."""
    return next((kind for kind, names in TRAINERS_NAMES.items() if schedule in names), None)


def _refuses_adafactor(config: Config) -> bool:
    """Whether the target's transformers rejects adafactor with an ``optimizer``; at first the old flag only."""
    refusals = config.knowledge.table("transformers", "refusals")
    conditions = next((facts["only_if"] for text, facts in refusals.items() if text.startswith("--adafactor")), ())
    flag = config.argument("adafactor")
    return "optim == 'adafactor'" in conditions or (bool(conditions) and flag is not None and flag.value is True)


def _prepares(config: Config) -> bool:
    """Whether Accelerate passes the Trainer's optimizer to DeepSpeed; in older releases the Trainer does."""
    return bool(config.knowledge.table("transformers", "requires")["accelerate"]["prepares"])

"""Rules about the optimizer and the scheduler that a training script makes beside those of the config (DS87x)."""

from __future__ import annotations

from ds_lint.checks.optimizer import ZERO_TESTED
from ds_lint.diagnostics.problem import OVERRIDDEN, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.constructors import offloads_optimizer, script_optimizers
from ds_lint.semantics.features import is_truthy, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stage
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.script_optimizers import HandedObject, ScriptOptimizers
    from ds_lint.semantics.config import Config

_ZERO = "zero_optimization"
_AT_PREPARE: Stage = "initialize"
_AT_STEP: Stage = "train"


@rule("DS870", "optimizer-in-config-and-script", severity="warning", effects=("overridden", "rejected"), keys=())
def optimizer_in_config_and_script(config: Config) -> Iterator[Problem]:
    """An optimizer or a scheduler of the script, where the config names one, or the Trainer makes its own.

    Sources: ``_configure_optimizer`` and ``_configure_lr_scheduler`` in ``deepspeed/runtime/engine.py``,
    ``_prepare_deepspeed`` in ``accelerate/accelerator.py``, and ``deepspeed_init`` in
    ``transformers/integrations/deepspeed.py``, which sets ``trainer.optimizer`` to None.
    """
    handed, launch = script_optimizers(config), config.facts.launch
    if handed is None or launch is None:
        return
    if config.stack == "trainer":
        yield from _dropped_by_trainer(config, handed, launch)
        return
    for section, has, made in (
        ("optimizer", handed.has_optimizer, handed.optimizer),
        ("scheduler", handed.has_scheduler, handed.scheduler),
    ):
        member = config.member(section)
        if not has or member is None or member.value.kind == "null":
            continue
        if config.stack == "accelerate" and (made is None or made.is_placeholder):
            continue
        if config.stack == "deepspeed" and config.value(section, "type") is None:
            continue
        what, place = _named(made, section), made.place if made is not None else handed.place
        outcome: Outcome
        if config.stack == "deepspeed":
            outcome, label = OVERRIDDEN, "not built"
            message = f"DeepSpeed takes {what} of the script, {launch.at(place)}, and ignores `{section}` of the config"
            advice = f"Delete `{section}` from the config, or do not pass `{_KEYWORDS[section]}`."
        else:
            outcome, label = rejected("initialize"), "also in the script"
            message = f"the script passes {what}, {launch.at(place)}, beside `{section}` of the config: "
            message += "accelerator.prepare raises a ValueError"
            advice = (
                f"Delete `{section}` from the config, or make `accelerate.utils.{_DUMMIES[section]}` in the script."
            )
        yield Problem(
            (section,),
            member.key_span,
            message,
            {config.stack or "deepspeed": outcome},
            help=advice,
            label=label,
            severity=None if config.stack == "deepspeed" else "error",
            related=launch.related(place, "made here" if made is not None else "passed here"),
        )


_KEYWORDS = {"optimizer": "optimizer=", "scheduler": "lr_scheduler="}
_DUMMIES = {"optimizer": "DummyOptim", "scheduler": "DummyScheduler"}


def _dropped_by_trainer(config: Config, handed: ScriptOptimizers, launch: LaunchFacts) -> Iterator[Problem]:
    """The Trainer makes its optimizer again for DeepSpeed, with or without one in the config."""
    if not handed.has_optimizer or handed.optimizer is None:
        return
    member = config.member("optimizer")
    instead = "the `optimizer` of the config" if member is not None else "the one of `optim`"
    yield Problem(
        ("optimizer",) if member is not None else None,
        member.key_span if member is not None else config.document_start,
        f"{handed.function} drops the {_named(handed.optimizer, 'optimizer')} of `optimizers`, "
        f"{launch.at(handed.optimizer.place)}: with DeepSpeed, it trains with {instead}",
        {"trainer": OVERRIDDEN},
        help="Delete `optimizers`, and set the optimizer in the config or in the training arguments. Or override "
        "`create_optimizer`, and have no `optimizer` in the config.",
        label="trains instead" if member is not None else "for DeepSpeed",
        related=launch.related(handed.optimizer.place, "never used"),
    )


@rule("DS871", "placeholder-for-nothing", severity="error", effects=("rejected",), keys=(), elsewhere=True)
def placeholder_for_nothing(config: Config) -> Iterator[Problem]:
    """``DummyOptim`` or ``DummyScheduler`` of accelerate, which stand for a section that the config does not have.

    Source: ``_prepare_deepspeed`` in ``accelerate/accelerator.py``.
    """
    handed, launch = script_optimizers(config), config.facts.launch
    if handed is None or launch is None or config.stack != "accelerate":
        return
    optimizer, scheduler = handed.optimizer, handed.scheduler
    found: tuple[HandedObject, str, str] | None = None
    raises, stage = "accelerator.prepare raises a ValueError", _AT_PREPARE
    if optimizer is not None and optimizer.is_placeholder and config.member("optimizer") is None:
        found = (
            optimizer,
            "the config has no `optimizer`",
            "Add `optimizer` to the config, or make an optimizer of torch.",
        )
    elif scheduler is not None and scheduler.is_placeholder and config.member("scheduler") is None:
        takes_callable = config.knowledge.stack_does("placeholders-take-a-callable")
        if not handed.has_callable or not takes_callable:
            advice = "Add `scheduler` to the config, or make a scheduler of torch."
            found = scheduler, "the config has no `scheduler`", advice
        elif handed.has_optimizer is False or (optimizer is not None and not optimizer.is_placeholder):
            advice = "Make a scheduler of torch, or pass `DummyOptim` for an `optimizer` of the config."
            found = scheduler, "Accelerate schedules DummyOptim only", advice
            raises, stage = "scheduler.step() raises an AttributeError", _AT_STEP
    elif optimizer is not None and optimizer.is_placeholder and scheduler is not None and not scheduler.is_placeholder:
        advice = "Make `DummyScheduler` for the `scheduler` of the config, or an optimizer of torch."
        found = optimizer, f"{scheduler.name.rpartition('.')[2]} cannot schedule it", advice
        raises = "the script raises"  # before it trains, as there are no ``param_groups``
    if found is None:
        return
    made, why, advice = found
    yield Problem(
        None,
        config.document_start,
        f"the script passes {_named(made, '')}, but {why}: {raises}",
        {"accelerate": rejected(stage)},
        help=advice,
        label="not what the script expects",
        related=launch.related(made.place, "made here"),
    )


@rule("DS872", "untested-script-optimizer", severity="error", effects=("rejected",), keys=(_ZERO,), elsewhere=True)
def untested_script_optimizer(config: Config) -> Iterator[Problem]:
    """An optimizer of the script that DeepSpeed runs with ZeRO only if the config allows untested optimizers.

    Source: ``_do_optimizer_sanity_check`` in ``deepspeed/runtime/engine.py``.
    """
    handed, launch, stage = script_optimizers(config), config.facts.launch, config.member(_ZERO, "stage")
    made = handed.optimizer if handed is not None and config.stack == "deepspeed" else None
    if made is None or launch is None or stage is None or not zero_stage(config) or offloads_optimizer(config):
        return
    name = _named(made, "")
    if name in ZERO_TESTED or is_truthy(config.node("zero_allow_untested_optimizer")):
        return
    yield Problem(
        (_ZERO, "stage"),
        stage.value.span,
        f"the script passes {name}, which DeepSpeed has not tested with ZeRO: deepspeed.initialize raises",
        {"deepspeed": rejected("initialize")},
        help='Set "zero_allow_untested_optimizer": true, or pass AdamW.',
        label=f"untested with {name}",
        related=launch.related(made.place, "made here"),
    )


def _named(made: HandedObject | None, what: str) -> str:
    if made is not None and what == "scheduler" and ".get_" in made.name:
        return f"the scheduler of {made.class_name}"
    return made.class_name if made is not None else f"{'an' if what == 'optimizer' else 'a'} {what}"

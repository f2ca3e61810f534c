"""Rules about training arguments that do not work with DeepSpeed, or with the stage of the config (DS64x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.evaluation import evaluated_alone
from ds_lint.semantics.features import (
    adapter_argument,
    recomputation_argument,
    set_argument,
    zero_stage,
)
from ds_lint.semantics.related import given_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config

STAGE = ("zero_optimization", "stage")


@rule(
    "DS640",
    "auto-find-batch-size-at-stage-3",
    severity="error",
    effects=("rejected",),
    keys=("zero_optimization",),
)
def auto_find_batch_size_at_stage_3(config: Config) -> Iterator[Problem]:
    """``auto_find_batch_size`` with ZeRO-3, which the Trainer rejects; a few releases reject it at every stage."""
    argument, stage = set_argument(config, "auto_find_batch_size"), config.node(*STAGE)
    if argument is None:
        return
    if config.knowledge.stack_does("auto-find-batch-size-is-refused"):
        yield Problem(
            None,
            config.opening,
            f"transformers {config.knowledge.target['transformers']} rejects `auto_find_batch_size` with DeepSpeed: "
            "Trainer() raises",
            {"trainer": rejected("initialize")},
            help="Remove `auto_find_batch_size` and set `per_device_train_batch_size`.",
            label="with auto_find_batch_size",
            related=given_at(argument, "auto_find_batch_size"),
        )
    if stage is None or stage.kind == "string" or zero_stage(config) != 3:
        return  # a stage in quotes: stage_as_string
    if config.knowledge.stack_does("auto-find-batch-size-is-refused-at-stage-3"):
        yield Problem(
            STAGE,
            stage.span,
            "the Trainer rejects `auto_find_batch_size` at stage 3: Trainer() raises",
            {"trainer": rejected("initialize")},
            help="Remove `auto_find_batch_size` and set `per_device_train_batch_size`, or use stage 2.",
            label="with auto_find_batch_size",
            related=given_at(argument, "auto_find_batch_size"),
        )


@rule("DS641", "evaluation-below-stage-3", severity="warning", effects=("rejected", "risk"))
def evaluation_below_stage_3(config: Config) -> Iterator[Problem]:
    """A run that evaluates or predicts without training, for which the Trainer accepts only ZeRO-3.

    Source: ``deepspeed_init`` in ``transformers/integrations/deepspeed.py``.
    """
    stage, alone, launch = zero_stage(config), evaluated_alone(config), config.facts.launch
    node = config.node(*STAGE) or config.node("zero_optimization")
    if alone is None or stage in (None, 3) or config.written.kind != "object":
        return
    argument = config.argument(alone.argument) if alone.argument else None
    what = f"`{alone.argument}` without `do_train`"
    if launch is not None and alone.call is not None and not alone.argument:
        what = f"`{alone.call.function}`, {launch.at(alone.call.place)}, without training"
    yield Problem(
        STAGE if node is not None else None,
        node.span if node is not None else config.opening,
        f"{what} needs stage 3, but the stage is {stage}: trainer.{alone.method}() raises",
        {"trainer": RISK if alone.call is None else rejected("initialize")},
        help="Run without DeepSpeed, or with a stage 3 config, the only one that the Trainer accepts without training.",
        label="not stage 3",
        severity="warning" if alone.call is None else "error",
        related=[
            *alone.related(launch),
            *(given_at(argument, alone.argument) if argument is not None else []),
        ],
    )


@rule("DS642", "fsdp-beside-deepspeed", severity="error", effects=("rejected",))
def fsdp_beside_deepspeed(config: Config) -> Iterator[Problem]:
    """``fsdp`` among the training arguments of a run with DeepSpeed."""
    argument = set_argument(config, "fsdp")
    if argument is not None:
        yield Problem(
            None,
            config.opening,
            "`fsdp` is set together with DeepSpeed, and the Trainer accepts only one of them: Trainer() raises",
            {"trainer": rejected("initialize")},
            help="Remove `fsdp` from the training arguments, or run without the DeepSpeed config.",
            label="together with fsdp",
            related=given_at(argument, "fsdp"),
        )


@rule("DS643", "frozen-parameters-recomputed", severity="warning", effects=("risk",), keys=("zero_optimization",))
def frozen_parameters_recomputed(config: Config) -> Iterator[Problem]:
    """Stage 3 with non-reentrant gradient checkpointing and frozen parameters, as with LoRA.

    Older versions of DeepSpeed release frozen parameters while torch still compares them with the first pass:
    ``release_sub_module`` in ``deepspeed/runtime/zero/partitioned_param_coordinator.py``.
    """
    checkpointing, stage = recomputation_argument(config), config.node(*STAGE)
    if checkpointing is None or stage is None or zero_stage(config) != 3 or _is_reentrant(config):
        return
    name, argument = checkpointing
    if not argument.value:
        return
    behaviour = "recomputation-loses-frozen-parameters"
    adapter = adapter_argument(config)
    if adapter and config.knowledge.does(behaviour):
        yield Problem(
            STAGE,
            stage.span,
            f"`{adapter}` suggests frozen parameters, which DeepSpeed {config.knowledge.deepspeed} loses in "
            "recomputation at stage 3: the backward pass raises",
            {"trainer": RISK},
            help=f"Add `--{name}_kwargs '{{\"use_reentrant\": true}}'`, use stage 2, or upgrade to "
            f"DeepSpeed {config.knowledge.ended(behaviour)} or newer. Non-reentrant gradient checkpointing "
            "of frozen parameters raises a CheckpointError.",
            label="with gradient checkpointing",
            related=given_at(argument, name),
        )


def _is_reentrant(config: Config) -> bool:
    """Whether gradient checkpointing is or may be reentrant, the older kind."""
    given = recomputation_argument(config, "_kwargs")
    recipe = config.facts.recipe
    if recipe is not None and recipe.record.is_reentrant and recipe.value("gradient_checkpointing_kwargs") is None:
        return True
    if given is None:
        training = config.facts.training
        if training is not None and training.may_be_set("gradient_checkpointing_kwargs"):
            return True
        return not config.knowledge.stack_does("gradient-checkpointing-is-not-reentrant")
    value = given[1].value
    if isinstance(value, dict):
        return value.get("use_reentrant") is not False
    return "false" not in str(value).lower()  # JSON in a flag

"""What a run needs, as ``ds-lint memory`` answers it, and why it cannot be estimated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.commands.launched_configs import named_model
from ds_lint.facts import alignment
from ds_lint.facts.lora import NoAdapters
from ds_lint.memory import inference, parallelism, setup, untrained
from ds_lint.memory.answer import Answer
from ds_lint.memory.capacity import capacity
from ds_lint.memory.estimate import estimate
from ds_lint.targets.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.commands.launched_configs import LaunchedConfig
    from ds_lint.memory.advice import Advice, Write
    from ds_lint.memory.capacity import Capacity
    from ds_lint.memory.estimate import Estimate
    from ds_lint.memory.setup import TrainingSetup
    from ds_lint.memory.sweep import SweepRow
    from ds_lint.semantics.config import Config

_OPTIONS = {  # that give what is missing
    "model": "--model (or --parameters)",
    "world size": "--world-size",
    "size of the model": "--parameters",
    "adapters": "--lora",
}


def answer_of(one: LaunchedConfig, *, sweeps: bool) -> Answer | None:
    """What a run takes; None if a fact is missing."""
    config = one.config
    wanted = setup.of(config) if complaint_of(one) is None else None
    if wanted is None:
        return None
    found, there = estimate(wanted), capacity(config.facts)
    return Answer(
        name=os.path.normpath(shown(config.document.path)),
        launch=os.path.normpath(one.origin) if one.origin is not None else None,
        model=_model(config, wanted),
        gpu_name=config.facts.gpu.in_words if config.facts.gpu is not None else "",
        estimate=found,
        capacity=there,
        advice=tuple(_advice(config, wanted, there)),
        rows=tuple(_rows(wanted)) if sweeps else (),
        left_out=tuple(_left_out(config, found)),
    )


def _advice(config: Config, wanted: TrainingSetup, there: Capacity) -> list[Advice]:
    """What makes the run fit."""
    if not there.is_known or (wanted.untrained is not None and wanted.untrained.is_served):
        return []
    from ds_lint.checks.acceptance import rejections
    from ds_lint.memory.advice import advice
    from ds_lint.memory.applied import Applied

    found = advice(wanted, there, Applied(config, wanted, rejections))
    return [_as_settings(one) for one in found] if config.accelerate is not None else found


def _as_settings(one: Advice) -> Advice:
    """Advice about the config that Accelerate makes of its YAML, by the names that the YAML has."""
    from ds_lint.semantics.accelerate.deepspeed_config import setting_of

    def named(write: Write) -> Write:
        path = tuple(write.key.split(".")) if write.place == "config" else None
        is_folder = path is not None and path[-1] == "nvme_path"
        name = "_".join(path[-2:]) if path is not None and is_folder else setting_of(path)
        return write if name is None else write._replace(key=f"deepspeed_config.{name}")

    changes = (change._replace(writes=tuple(map(named, change.writes))) for change in one.changes)
    return one._replace(changes=tuple(changes))


def _rows(wanted: TrainingSetup) -> list[SweepRow]:
    from ds_lint.memory.sweep import sweep

    rows = sweep(wanted)
    if wanted.untrained is None:
        return rows
    return (
        [] if wanted.untrained.is_served else [row for row in rows if row.stage == 3 and row.offload != ("optimizer",)]
    )


def _model(config: Config, wanted: TrainingSetup) -> str:
    """The model and its parameters, in words."""
    model = config.facts.model
    assert model is not None  # noqa: S101 - there is no setup without
    if model.is_stand_in:
        return model.origin
    trained = wanted.trained_count
    part = f", {_in_words(trained)} of them trained" if trained < wanted.parameter_count else ""
    return f"{os.path.normpath(model.origin)}: {_in_words(wanted.parameter_count)} parameters{part}"


def _in_words(count: int) -> str:
    """A number of parameters as people say it."""
    for unit, word in ((10**9, "billion"), (10**6, "million")):
        if count >= unit:
            return f"{count / unit:.3g} {word}"
    return f"{count:,}"


def _left_out(config: Config, found: Estimate) -> Iterator[str]:
    """What is not counted, and the options that let it be counted."""
    wanted, aligned = found.setup, alignment.of(config.facts)
    if aligned is not None:
        counted = {one.words for one in wanted.further} | (
            {alignment.GENERATION} if "generation" in found.peaks else set()
        )
        yield from (f"{other} ({aligned.method})" for other in aligned.others if other not in counted)
    if (work := wanted.untrained or wanted.evaluation) is not None:
        yield from inference.left_out(wanted, work)
    if wanted.untrained is not None:
        return
    if "activations" in found.parts:
        return
    options = [
        option
        for option, value in (("--micro-batch", wanted.micro_batch), ("--sequence-length", wanted.sequence_length))
        if value is None
    ]
    yield "activations" + (f" (set {' and '.join(options)})" if options else " (they are not known for this model)")


def complaint_of(one: LaunchedConfig) -> str | None:
    """Why there is no estimate, and which options to set; None if there is one."""
    config = one.config
    place = os.path.normpath(one.origin or config.document.path)
    try:
        lacks = setup.missing(config)
    except NoAdapters as error:
        return f"{place}: {error}"
    model, recipe = config.facts.model, config.facts.recipe
    if model is not None and model.quantization is not None:
        return f"{place}: the weights of {model.path} are quantized ({model.quantization}), which is not estimated"
    if recipe is not None and recipe.quantization is not None:
        return f"{place}: `{recipe.quantization.name}` quantizes the weights, which is not estimated"
    if (why := untrained.refusal(config) or parallelism.split(config)) is not None:
        return f"{place}: {why}, which is not estimated"
    if not lacks:
        stage_is_known = setup.of(config) is not None
        return None if stage_is_known else f"{place}: the ZeRO stage is not known; run ds-lint check to see why"
    name = named_model(config.facts.launch or recipe)
    reasons = {
        "model": f"no file of the model {name} is on this machine" if name else "the model is not known",
        "world size": "the number of ranks is not known",
        "size of the model": "the shapes of the parameters are not known",
        "adapters": "the run trains adapters, and which is not known",
    }
    reason = " and ".join(reasons[one] for one in lacks)
    return f"{place}: {reason}; set {' and '.join(_OPTIONS[one] for one in lacks)}"

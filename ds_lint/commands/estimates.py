"""What a run needs, as ``ds-lint memory`` answers it, and why it cannot be estimated."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.commands.launched_configs import named_model
from ds_lint.facts import alignment, lora_requests
from ds_lint.facts.lora import NoAdapters
from ds_lint.facts.model import named_or_in
from ds_lint.footprint import inference, parallelism, quantized, setup, tensor_parallelism, untrained
from ds_lint.footprint.answer import Answer
from ds_lint.footprint.capacity import capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.fsdp import settings as fsdp_settings
from ds_lint.targets.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.commands.launched_configs import LaunchedConfig
    from ds_lint.facts.tensors import Tensor
    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.capacity import Capacity
    from ds_lint.footprint.changes import Write
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.largest import LargestSizes
    from ds_lint.footprint.open_facts import OpenFact
    from ds_lint.footprint.setup import TrainingSetup
    from ds_lint.footprint.sweep import SweepRow
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.semantics.config import Config

_OPTIONS = {  # that give what is missing
    "model": "--model (or --parameters)",
    "world size": "--world-size",
    "size of the model": "--build-model (or --parameters)",
    "adapters": "--lora",
}


class AnswerParts(NamedTuple):
    """What is asked beside the figures: all stages, what the run may grow to, and without a config what is assumed."""

    sweeps: bool = False
    grows: bool = False
    assumed: tuple[str, ...] | None = None


def answer_of(one: LaunchedConfig, parts: AnswerParts) -> Answer | None:
    """What a run takes; None if a fact is missing."""
    config = one.config
    wanted = setup.of(config) if complaint_of(one) is None else None
    if wanted is None:
        return None
    is_config = parts.assumed is None
    if not is_config:
        wanted = wanted._replace(uses_zero_init=True)
    found, there = estimate(wanted), capacity(config.facts)
    is_zero = wanted.fsdp is None
    advice = _advice(config, wanted, there) if is_config else []
    rows = _rows(config, wanted, there, parts) if parts.sweeps and is_zero else []
    has_way = bool(advice) if is_config else any(place is not None for row in rows for place in row.places)
    return Answer(
        name=os.path.normpath(shown(config.document.path)),
        launch=os.path.normpath(one.origin) if one.origin is not None else None,
        model=_model(config, wanted),
        gpu_name=config.facts.gpu.in_words if config.facts.gpu is not None else "",
        estimate=found,
        capacity=there,
        advice=tuple(advice),
        least_ranks=None if has_way or not is_zero else _least_ranks(wanted, found, there),
        rows=tuple(rows),
        left_out=tuple(_left_out(config, found)),
        open_facts=tuple(_open_facts(wanted)) if is_config else (),
        largest=_largest(wanted, there, _SizedModels(config)) if parts.grows and is_config and is_zero else None,
        assumed=parts.assumed,
    )


def _advice(config: Config, wanted: TrainingSetup, there: Capacity) -> list[Advice]:
    """What makes the run fit."""
    if not there.is_known or (wanted.untrained is not None and wanted.untrained.is_served):
        return []
    if wanted.fsdp is not None:
        from ds_lint.footprint.fsdp.advice import advice as advice_of_fsdp
        from ds_lint.footprint.fsdp.names import as_written

        return [as_written(one, config) for one in advice_of_fsdp(wanted, there)]
    from ds_lint.checks.acceptance import rejections
    from ds_lint.footprint.applied import advised

    found = advised(config, wanted, rejections)
    return [_as_settings(one) for one in found] if config.accelerate is not None else found


def _open_facts(wanted: TrainingSetup) -> list[OpenFact]:
    """What is not known of the run, and makes its bands wider."""
    from ds_lint.footprint.open_facts import open_facts

    return open_facts(wanted)


def _least_ranks(wanted: TrainingSetup, found: Estimate, there: Capacity) -> Advice | None:
    """What the run needs that nothing within reach makes fit."""
    if False not in there.fit(found) or (wanted.untrained is not None and wanted.untrained.is_served):
        return None
    from ds_lint.footprint.advice import least_ranks

    return least_ranks(wanted, there)


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


def _rows(config: Config, wanted: TrainingSetup, there: Capacity, parts: AnswerParts) -> list[SweepRow]:
    from ds_lint.footprint.largest import LargestSizes, micro_batch
    from ds_lint.footprint.sweep import sweep

    only = config.facts.activation_checkpointing  # by the user, who wants no other rows
    models = _SizedModels(config)

    def grown(setup: TrainingSetup, capacity: Capacity) -> LargestSizes:
        return _largest(setup, capacity, models) if parts.grows else LargestSizes(micro_batch(setup, capacity))

    if wanted.untrained is not None:
        return [] if wanted.untrained.is_served else sweep(wanted, there, (), grown=lambda *_: LargestSizes())
    checkpointing = (False, True) if only is None else (only,)
    return sweep(wanted, there, checkpointing, is_config=parts.assumed is None, grown=grown)


def _largest(wanted: TrainingSetup, there: Capacity, models: _SizedModels) -> LargestSizes:
    """What the run may grow to."""
    from ds_lint.footprint.largest import sizes

    return sizes(wanted, there, lambda count: models.sized(wanted, count))


class _SizedModels:
    """Models of other sizes with the adapters of a run, each made once."""

    def __init__(self, config: Config) -> None:
        self._facts = config.facts
        self._known: dict[int, tuple[tuple[Tensor, ...], JsonObject]] = {}

    def sized(self, setup: TrainingSetup, count: int) -> TrainingSetup | None:
        """The setup with a stand-in of so many parameters; None if the adapters have no place in it."""
        from ds_lint.facts.parameter_count import stand_in
        from ds_lint.footprint.setup import with_model

        if count not in self._known:
            facts = self._facts.copy()
            facts.model = stand_in(count)
            self._known[count] = tuple(lora_requests.parameters(facts)), facts.model.config
        tensors, architecture = self._known[count]
        if not tensors:
            return None
        return with_model(setup, tensors, architecture)._replace(is_stand_in=True)


def _model(config: Config, wanted: TrainingSetup) -> str:
    """The model and its parameters, in words."""
    model = config.facts.model
    assert model is not None  # noqa: S101 - there is no setup without
    if model.is_stand_in:
        return model.origin
    trained = wanted.trained_count
    part = f", {_in_words(trained)} of them trained" if trained < wanted.parameter_count else ""
    part += f", {quantized.in_words(wanted.weights)}" if wanted.weights is not None else ""
    return f"{os.path.normpath(model.origin)}: {_in_words(wanted.saved_count)} parameters{part}"


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
        counted = {one.words for one in wanted.further}
        counted |= {alignment.GENERATION} if "generation" in found.peaks else set()
        yield from (f"{other} ({aligned.method})" for other in aligned.others if other not in counted)
    if (what := quantized.not_included(wanted)) is not None:
        yield what
    if wanted.fsdp is not None:
        yield from fsdp_settings.left_out(config)
    yield from _of_parallelism(config, found)
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


def _undivided(config: Config) -> str | None:
    """Why DeepSpeed does not divide the model among ranks, in words."""
    model, ranks, degrees = config.facts.model, config.world_size, parallelism.degrees(config)
    if fsdp_settings.sharding_of(config) is not None or untrained.of(config) is not None:
        return None
    if ranks and ranks % degrees.of_a_copy:
        return f"{ranks} ranks are not a multiple of the {degrees.of_a_copy} that share a copy of the model"
    return tensor_parallelism.refusal(model.config, degrees) if model is not None else None


def _of_parallelism(config: Config, found: Estimate) -> Iterator[str]:
    """What may make the part of a rank smaller than what is counted."""
    if (open_split := parallelism.uncounted(config)) is not None:
        yield open_split
    elif not found.setup.part.is_sure:
        degrees = parallelism.degrees(config)
        ranks = degrees.experts if degrees.of_a_copy == 1 else degrees.of_a_copy
        what = "experts" if degrees.of_a_copy == 1 else "a copy of the model"
        yield f"what the {ranks} ranks of {what} divide (it counts whole)"


def _why_unknown(name: str) -> str:
    """Why a model that a run names is not known."""
    if named_or_in(name, None) is None:
        return f"no file of the model {name} is on this machine"
    return f"the script may make another model of {name}"


def complaint_of(one: LaunchedConfig) -> str | None:
    """Why there is no estimate, and which options to set; None if there is one."""
    config = one.config
    place = os.path.normpath(one.origin or config.document.path)
    try:
        lacks = setup.missing(config)
    except NoAdapters as error:
        return f"{place}: {error}"
    if (why := untrained.refusal(config) or _undivided(config)) is not None:
        return f"{place}: {why}, which is not estimated"
    if not lacks:
        wanted = setup.of(config)
        if wanted is None:
            return f"{place}: the ZeRO stage is not known; run ds-lint check to see why"
        return None if (why := quantized.why_not(config, wanted)) is None else f"{place}: {why}"
    name = named_model(config.facts.launch or config.facts.recipe)
    reasons = {
        "model": _why_unknown(name) if name else "the model is not known",
        "world size": "the number of ranks is not known",
        "size of the model": "the shapes of the parameters are not known",
        "adapters": "the run trains adapters, and which is not known",
    }
    reason = " and ".join(reasons[one] for one in lacks)
    return f"{place}: {reason}; set {' and '.join(_OPTIONS[one] for one in lacks)}"

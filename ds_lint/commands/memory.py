"""``ds-lint memory``: what a run takes on each GPU, host and NVMe, and whether it fits."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.launched_configs import launched_configs, named_model
from ds_lint.commands.one_config import UnreadableConfigError
from ds_lint.commands.report import print_text, write_notes
from ds_lint.facts import alignment
from ds_lint.facts.lora import NoAdapters
from ds_lint.memory import doubts, parallelism, setup
from ds_lint.memory.answer import Answer
from ds_lint.memory.capacity import capacity
from ds_lint.memory.estimate import estimate
from ds_lint.output import memory_table
from ds_lint.output.harmless import JSON, complaint, harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.session.session import Session
from ds_lint.source import replacement
from ds_lint.targets.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.commands.launched_configs import LaunchedConfig
    from ds_lint.commands.options import MemoryOptions
    from ds_lint.memory.advice import Advice, Write
    from ds_lint.memory.capacity import Capacity
    from ds_lint.memory.estimate import Estimate
    from ds_lint.memory.setup import TrainingSetup
    from ds_lint.memory.sweep import SweepRow
    from ds_lint.semantics.config import Config
    from ds_lint.session.options import Options

_OPTIONS = {  # that give what is missing
    "model": "--model (or --parameters)",
    "world size": "--world-size",
    "size of the model": "--parameters",
    "adapters": "--lora",
}


def memory(options: Options, own: MemoryOptions) -> int:
    """Print what the runs of a config or of a file with launches take; the exit status is 1 if one does not fit."""
    (path,) = options.paths
    if (why := _cannot_plot(own)) is not None:
        return complain(why)
    try:
        session = Session(options)
        found = launched_configs(path, session)
        answers = _different(answer for one in found if (answer := _answer(one, sweeps=own.sweep)) is not None)
    except (*WRONG_USAGE, UnreadableConfigError) as error:
        return complain(error)
    if not answers:
        for reason in filter(None, map(_complaint, found)):
            sys.stderr.write(complaint(reason))
        return 2
    if own.plot is not None:
        if len(answers) > 1:
            last = found[-1].config.document.path if found[-1].origin is None else found[-1].origin
            return complain(f"{path} has {len(answers)} runs, and --plot draws one; name it with its line, as {last}")
        _plot(answers[0], own.plot)
    documents = [one.config.document for one in found]
    notes = [*session.notes, *_notes(found)]
    if options.output_format == "json":
        from ds_lint.output import memory_json

        sys.stdout.write(harmless(memory_json.text(answers, notes), JSON, documents))
        write_notes(notes, documents)
    else:
        terminal = terminal_of(sys.stdout)
        text = memory_table.joined(memory_table.lines(answer, terminal) for answer in answers)
        print_text(harmless(text, documents=documents), sys.stdout)
        write_notes(notes, documents)
    return 1 if any(answer.surely_fails for answer in answers) else 0


def _cannot_plot(own: MemoryOptions) -> str | None:
    """Why a file cannot be drawn, before anything is done; None if it can."""
    if own.plot is None:
        return None
    ending = os.path.splitext(own.plot)[1].lower()
    if ending not in (".svg", ".html", ".png"):
        return f"--plot writes .svg, .html or .png, not {own.plot}"
    if ending == ".png":
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            return "--plot needs matplotlib for .png (pip install matplotlib); .svg and .html need nothing"
    return None


def _plot(answer: Answer, path: str) -> None:
    """Write a drawing."""
    from ds_lint.output import memory_plot

    if path.lower().endswith(".png"):
        memory_plot.write_png(answer, path)
        return
    text = memory_plot.svg(answer) if path.lower().endswith(".svg") else memory_plot.page(answer)
    replacement.write(path, text.encode(), is_report=True)


def _answer(one: LaunchedConfig, *, sweeps: bool) -> Answer | None:
    """What a run takes; None if a fact is missing."""
    config = one.config
    wanted = setup.of(config) if _complaint(one) is None else None
    if wanted is None:
        return None
    found, there = estimate(wanted), capacity(config.facts)
    return Answer(
        name=os.path.normpath(shown(config.document.path)),
        launch=os.path.normpath(one.origin) if one.origin is not None else None,
        model=_model(config, wanted),
        gpu_name=config.facts.gpu.name if config.facts.gpu is not None else "",
        estimate=found,
        capacity=there,
        advice=tuple(_advice(config, wanted, there)),
        rows=tuple(_rows(wanted)) if sweeps else (),
        left_out=tuple(_left_out(config, found)),
    )


def _different(answers: Iterable[Answer]) -> list[Answer]:
    """The answers about a config without those that equal one before: what differs between launches may not count."""
    found: list[Answer] = []
    for answer in answers:
        if not any(answer._replace(launch=one.launch) == one for one in found):
            found.append(answer)
    return found


def _advice(config: Config, wanted: TrainingSetup, there: Capacity) -> list[Advice]:
    """What makes the run fit."""
    if not there.is_known:
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

    return sweep(wanted)


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
        yield from (f"{other} ({aligned.method})" for other in aligned.others)
    if "activations" in found.parts:
        return
    options = [
        option
        for option, value in (("--micro-batch", wanted.micro_batch), ("--sequence-length", wanted.sequence_length))
        if value is None
    ]
    yield "activations" + (f" (set {' and '.join(options)})" if options else " (they are not known for this model)")


def _complaint(one: LaunchedConfig) -> str | None:
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
    if (why := doubts.not_training(config) or parallelism.split(config)) is not None:
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


def _notes(found: list[LaunchedConfig]) -> Iterator[str]:
    """What is assumed, and the launches of a file that cannot be counted."""
    for one in found:
        config = one.config
        if (reason := _complaint(one)) is not None:
            yield reason
        elif setup.is_dtype_assumed(config):
            yield (
                f"{config.document.path}: the run is taken to train in 16 bit, because the training arguments are not "
                'known (set --trainer-args, such as "--bf16")'
            )

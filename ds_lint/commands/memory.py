"""``ds-lint memory``: what a run takes on each GPU, host and NVMe, and whether it fits."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ds_lint.commands.estimates import answer_of, complaint_of
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.launched_configs import launched_configs
from ds_lint.commands.one_config import UnreadableConfigError
from ds_lint.commands.report import print_text, write_notes
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.memory import setup
from ds_lint.output import memory_table
from ds_lint.output.harmless import JSON, complaint, harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.session.session import Session
from ds_lint.source import replacement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.commands.launched_configs import LaunchedConfig
    from ds_lint.commands.options import MemoryOptions
    from ds_lint.memory.answer import Answer
    from ds_lint.session.options import Options


def memory(options: Options, own: MemoryOptions) -> int:
    """Print what the runs of a config or of a file with launches take; the exit status is 1 if one does not fit."""
    (path,) = options.paths
    if (why := _cannot_plot(own)) is not None:
        return complain(why)
    try:
        session = Session(options)
        found = launched_configs(path, session)
        if own.build_model:
            _build_models(found)
        answers = _different(answer for one in found if (answer := answer_of(one, sweeps=own.sweep)) is not None)
    except (*WRONG_USAGE, UnreadableConfigError) as error:
        return complain(error)
    if not answers:
        for reason in filter(None, map(complaint_of, found)):
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


def _build_models(found: list[LaunchedConfig]) -> None:
    """Give models whose shapes are not known the parameters that their classes have."""
    for model in {id(one): one for config in found if (one := config.config.facts.model) is not None}.values():
        if model.parameter_count is None and model.quantization is None and model.config:
            from ds_lint.facts.safetensors import Parameter
            from ds_lint.smoke import meta_model

            try:
                built = meta_model.parameters(model.config)
            except meta_model.NotBuilt as reason:
                raise UnreadableFact(f"{model.origin}: {reason}") from None
            model.parameters = [Parameter(name, shape, model.dtype or "") for name, shape in built]
            model.parameter_count = sum(parameter.count for parameter in model.parameters)


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


def _different(answers: Iterable[Answer]) -> list[Answer]:
    """The answers about a config without those that equal one before: what differs between launches may not count."""
    found: list[Answer] = []
    for answer in answers:
        if not any(answer._replace(launch=one.launch) == one for one in found):
            found.append(answer)
    return found


def _notes(found: list[LaunchedConfig]) -> Iterator[str]:
    """What is assumed, and the launches of a file that cannot be counted."""
    for one in found:
        config = one.config
        if (reason := complaint_of(one)) is not None:
            yield reason
        elif setup.is_dtype_assumed(config):
            yield (
                f"{config.document.path}: the run is taken to train in 16 bit, because the training arguments are not "
                'known (set --trainer-args, such as "--bf16")'
            )

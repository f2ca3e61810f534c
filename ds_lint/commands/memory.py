"""``ds-lint memory``: what a run takes on each GPU, host and NVMe, and whether it fits."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ds_lint.commands.estimates import AnswerParts, answer_of, complaint_of
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.launched_configs import launched_configs
from ds_lint.commands.one_config import UnreadableConfigError
from ds_lint.commands.report import print_text, write_notes
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.footprint import packed, setup
from ds_lint.output import memory_table
from ds_lint.output.harmless import JSON, complaint, harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.session.session import Session
from ds_lint.source import replacement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.commands.launched_configs import LaunchedConfig
    from ds_lint.commands.options import MemoryOptions
    from ds_lint.footprint.answer import Answer
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.options import Options
    from ds_lint.source.document import Document

_ON_STANDARD_OUTPUT = "-"  # as the FILE of --plot


def memory(options: Options, own: MemoryOptions) -> int:
    """Print what the runs of a config or of a file with launches take; the exit status is 1 if one does not fit."""
    path = own.path
    if (why := _cannot_plot(own, options)) is not None:
        return complain(why)
    try:
        session = Session(options)
        if path is None:
            return _without_config(session, options, own)
        found = launched_configs(path, session)
        if own.build_model:
            build_models(found)
        parts = AnswerParts(sweeps=own.sweep, grows=own.largest)
        answers = different(answer for one in found if (answer := answer_of(one, parts)) is not None)
    except (*WRONG_USAGE, UnreadableConfigError) as error:
        return complain(error)
    if not answers:
        for reason in filter(None, map(complaint_of, found)):
            sys.stderr.write(complaint(reason))
        return 2
    if own.plot not in (None, _ON_STANDARD_OUTPUT) and len(answers) > 1:
        last = found[-1].config.document.path if found[-1].origin is None else found[-1].origin
        return complain(f"{path} has {len(answers)} runs, and --plot draws one; name it with its line, as {last}")
    return _print(answers, found, [*session.notes, *_notes(found)], options, own)


def _without_config(session: Session, options: Options, own: MemoryOptions) -> int:
    """Compare all stages for the run that the facts describe."""
    from ds_lint.commands.assumed_config import assumed_config, assumptions, needed

    one = assumed_config(session, asks_for_model=own.largest)
    if own.build_model:
        build_models([one])
    if (lack := needed(one.config.facts)) is not None:
        return complain(lack)
    answer = answer_of(one, AnswerParts(sweeps=True, grows=own.largest, assumed=assumptions(session, one)))
    if answer is None:
        return complain(complaint_of(one) or "")
    return _print([answer], [one], session.notes, options, own)


def _print(
    answers: list[Answer], found: list[LaunchedConfig], notes: list[str], options: Options, own: MemoryOptions
) -> int:
    """Write the picture, print the answers and the notes; the exit status."""
    documents = [one.config.document for one in found]
    notes = [*notes, *(_without_stages(answers) if own.sweep else ())]
    if own.plot is not None and own.plot != _ON_STANDARD_OUTPUT:
        replacement.write(own.plot, _picture(answers[0], own.plot, notes, documents), is_report=True)
    if options.output_format == "json":
        from ds_lint.output import memory_json

        sys.stdout.write(harmless(memory_json.text(answers, notes), JSON, documents))
    else:
        terminal = terminal_of(sys.stdout)
        is_drawn = own.plot == _ON_STANDARD_OUTPUT
        text = memory_table.joined(
            [*memory_table.lines(answer, terminal), *(_drawn(answer, terminal) if is_drawn else ())]
            for answer in answers
        )
        print_text(harmless(text, documents=documents), sys.stdout)
    write_notes(notes, documents)
    return 1 if any(answer.surely_fails for answer in answers) else 0


def build_models(found: list[LaunchedConfig]) -> None:
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


def _cannot_plot(own: MemoryOptions, options: Options) -> str | None:
    """Why a file cannot be drawn, before anything is done; None if it can."""
    if own.plot is None:
        return None
    if own.plot == _ON_STANDARD_OUTPUT:
        if options.output_format == "json":
            return "--plot - prints text, not JSON; write the picture to a file, or leave out --output-format json"
        return None
    ending = os.path.splitext(own.plot)[1].lower()
    if ending not in (".svg", ".html", ".png"):
        return f"--plot writes .svg, .html or .png, or text on standard output with -, not {own.plot}"
    if ending == ".png":
        from importlib.util import find_spec

        if find_spec("matplotlib") is None:
            return "--plot needs matplotlib for .png (pip install matplotlib); .svg, .html and - need nothing"
    return None


def _drawn(answer: Answer, terminal: Terminal) -> list[str]:
    """The picture in the terminal."""
    from ds_lint.output import memory_blocks

    return memory_blocks.lines(answer, terminal)


def _picture(answer: Answer, path: str, notes: list[str], documents: list[Document]) -> bytes:
    """The content of the file with the picture."""
    ending = os.path.splitext(path)[1].lower()
    if ending == ".png":
        from ds_lint.output.memory_png import png

        return png(answer, documents)
    if ending == ".svg":
        from ds_lint.output.memory_svg import svg

        return svg(answer, documents).encode()
    from ds_lint.commands.invocation import invocation
    from ds_lint.output.memory_page import page

    return page(answer, invocation(), notes, documents).encode()


def different(answers: Iterable[Answer]) -> list[Answer]:
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
        if reason is None and (doubt := packed.doubt(config)) is not None:
            yield f"{config.document.path}: {doubt}"


def _without_stages(answers: list[Answer]) -> Iterator[str]:
    """The runs of which a sweep has no rows."""
    for answer in answers:
        if answer.estimate.setup.fsdp is not None:
            yield f"{answer.name}: --sweep compares the stages of ZeRO, and this run uses FSDP"

"""Calls of ``ds_lint.effective`` and ``ds_lint.memory``: what the commands answer, as records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import warn

from ds_lint.commands import memory as command
from ds_lint.commands.effective import outcome_of
from ds_lint.commands.estimates import AnswerParts, answer_of, complaint_of
from ds_lint.commands.launched_configs import LaunchedConfig, launched_configs, read_config
from ds_lint.commands.one_config import one_config
from ds_lint.footprint.band import Band, total
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.output import effective_values, memory_json
from ds_lint.semantics import configs
from ds_lint.session.call import options_of
from ds_lint.session.options import terms, terms_of_memory
from ds_lint.session.session import Session
from ds_lint.source import documents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from ds_lint.diagnostics.finding import Finding, Stack
    from ds_lint.footprint.answer import Answer
    from ds_lint.footprint.capacity import Capacity, Fit
    from ds_lint.option import Option
    from ds_lint.source.document import Document

    Origin = Literal["written", "filled", "inserted", "overwritten", "default"]


class EffectiveValue(NamedTuple):
    """One value as the stack uses it, what gives it (``by``), and its source in words; unknown before the run: None."""

    key: str
    value: Any
    is_known: bool
    by: Origin
    source: str


class EffectiveValues(NamedTuple):
    """A config as the stack uses it: its values by their key path with dots, and the findings that reject it."""

    stack: Stack | None
    target: dict[str, str]  # the release of each library
    values: dict[str, EffectiveValue]
    rejected: list[Finding]


class MemoryPeak(NamedTuple):
    """The most bytes at once in one phase of a run."""

    gpu: Band
    host: Band


class MemoryEstimate(NamedTuple):
    """What a run takes, in bytes; of several kinds of ranks, that of the one that holds most.

    ``report`` is all that ``ds-lint memory --output-format json`` has of the run.
    """

    path: str
    launch: str | None  # that the facts come from
    gpu: Band  # the highest peak of one GPU
    host: Band  # of the memory of one machine
    nvme: Band  # on one machine
    gpu_parts: dict[str, Band]  # by kind: parameters, gradients, optimizer_states, ...
    host_parts: dict[str, Band]
    nvme_parts: dict[str, Band]
    peaks: dict[str, MemoryPeak]  # by phase: initialization, step, saving, ...
    capacity: Capacity
    fits: Fit
    left_out: tuple[str, ...]  # what the figures do not include, and why
    advice: tuple[str, ...]  # changes that make it fit, in words, those that cost the least first
    report: dict[str, Any]


def effective(config: Any, *, everything: bool, **keywords: object) -> EffectiveValues:
    """The values of a config, which is a path, or a dict as the library gets it."""
    session = _session(terms(), keywords, "ds_lint.effective")
    if (document := _made(config)) is not None:
        basis = session.context(document.path).basis.but(policies=())
        outcome = outcome_of(configs.from_document(document, basis), session, everything=everything)
    else:
        outcome = outcome_of(one_config(str(config), session), session, everything=everything)
    _warn(session)
    found = outcome.config
    values: dict[str, EffectiveValue] = {}
    for one in outcome.values:
        known = one.value is not UNKNOWN
        value = effective_values.without_unknown(one.value) if known else None
        values[one.key] = EffectiveValue(one.key, value, known, one.by, one.source)  # type: ignore[arg-type]
    return EffectiveValues(found.stack, dict(found.knowledge.target), values, outcome.rejected)


def memory(config: Any, *, sweep: bool, largest: bool, build_model: bool, **keywords: object) -> list[MemoryEstimate]:
    """What the runs of a config or of a file with launches take."""
    session = _session(terms_of_memory(), keywords, "ds_lint.memory")
    if (document := _made(config)) is not None:
        basis = session.context(document.path).basis.but(policies=())
        found = [LaunchedConfig(read_config(document, basis, session))]
    else:
        found = launched_configs(str(config), session)
    if build_model:
        command.build_models(found)
    parts = AnswerParts(sweeps=sweep, grows=largest)
    answers = command.different(answer for one in found if (answer := answer_of(one, parts)) is not None)
    _warn(session)
    if not answers:
        raise ValueError("; ".join(_in_keywords(why) for why in map(complaint_of, found) if why))
    return [_estimate(answer) for answer in answers]


def _session(known: list[Option], keywords: Mapping[str, object], given_by: str) -> Session:
    """What the keywords say; no settings are read."""
    options = options_of(known, keywords, given_by)
    options.isolated = True
    return Session(options)


def _made(config: Any) -> Document | None:
    """The document of a dict; None of a path."""
    if isinstance(config, str) or hasattr(config, "__fspath__"):
        return None
    if not hasattr(config, "keys"):
        raise TypeError(f"a config must be a dict or a path, not {type(config).__name__}")
    return documents.from_dict(config)


def _warn(session: Session) -> None:
    for note in session.notes:
        warn(note, stacklevel=4)  # of a release that ds-lint does not know


def _in_keywords(text: str) -> str:
    """A complaint that names options, with the keywords of a call."""
    return re.sub("--([a-z-]+)", lambda found: found[1].replace("-", "_"), text)


def _estimate(answer: Answer) -> MemoryEstimate:
    estimate = answer.estimate
    return MemoryEstimate(
        path=answer.name,
        launch=answer.launch,
        gpu=estimate.gpu_bytes,
        host=estimate.host_bytes,
        nvme=total([amount.bytes for amount in estimate.nvme.values()]),
        gpu_parts={name: amount.bytes for name, amount in estimate.rank.items()},
        host_parts={name: amount.bytes for name, amount in estimate.host.items()},
        nvme_parts={name: amount.bytes for name, amount in estimate.nvme.items()},
        peaks={name: MemoryPeak(peak.gpu, peak.host) for name, peak in estimate.peaks.items()},
        capacity=answer.capacity,
        fits=answer.fit,
        left_out=answer.left_out,
        advice=tuple(one.words for one in answer.advice),
        report=memory_json.as_object(answer),
    )

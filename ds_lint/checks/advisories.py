"""Defects of releases that the config reaches (DS847, and the codes of older rules): ``schemas/advisories.json``.

One rule over the store: what is wrong, where it points and what it does is in the record.
"""

from __future__ import annotations

from ds_lint.diagnostics.problem import Outcome, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.knowledge.advisories import DEFAULT_CODE, advisories, code_of
from ds_lint.knowledge.advisory_words import help_of, in_prose
from ds_lint.semantics.pin_places import related_pin
from ds_lint.semantics.reached_advisories import certain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Related
    from ds_lint.knowledge.advisories import Exposure
    from ds_lint.knowledge.records import AdvisoryRecord
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

_LABEL = "reaches the defect"


@rule(
    DEFAULT_CODE,
    "release-defect",
    severity="warning",
    effects=("rejected", "wrong-result", "overridden", "risk", "no-effect"),
)
def release_defect(config: Config) -> Iterator[Problem]:
    """A defect of the pinned release that this config reaches."""
    return problems_of_releases(config, DEFAULT_CODE)


@rule("DS324", "overlap-comm-race", severity="warning", effects=("risk",), keys=("zero_optimization",))
def overlap_comm_race(config: Config) -> Iterator[Problem]:
    """``overlap_comm`` in releases whose backward pass may overwrite a buffer before its reduction ends."""
    return problems_of_releases(config, "DS324")


@rule("DS325", "hpz-race", severity="warning", effects=("risk",), keys=("zero_optimization",))
def hpz_race(config: Config) -> Iterator[Problem]:
    """Secondary partitions that older releases gather before the copy ends, or after the weights have changed."""
    return problems_of_releases(config, "DS325")


@rule("DS366", "nvme-parameters-not-saved", severity="warning", effects=("risk",), keys=("zero_optimization",))
def nvme_parameters_not_saved(config: Config) -> Iterator[Problem]:
    """Parameters on NVMe without the optimizer on NVMe, which older releases cannot save or load."""
    return problems_of_releases(config, "DS366")


@rule("DS531", "muon-without-zero", severity="warning", effects=("wrong-result",), keys=("optimizer",))
def muon_without_zero(config: Config) -> Iterator[Problem]:
    """Muon at stage 0 in releases whose optimizer leaves the Newton-Schulz iteration to ZeRO."""
    return problems_of_releases(config, "DS531")


def problems_of_releases(config: Config, code: str) -> Iterator[Problem]:
    """The advisories with a code that certainly apply."""
    for exposure in certain(config):
        if code_of(exposure.record) == code:
            yield _problem(config, exposure, advisories()[exposure.record["id"]])


def _problem(config: Config, exposure: Exposure, record: AdvisoryRecord) -> Problem:
    key, span, label = _place(config, record)
    outcome = Outcome(record["effect"], record.get("stage"))
    return Problem(
        key,
        span,
        f"{_releases(exposure)} {record['summary']}",
        {stack: outcome for stack in config.stacks if stack in record.get("stacks", config.stacks)},
        help=help_of(record),
        label=label,
        severity=record["severity"],
        related=list(_pins(config, exposure)),
        subject=record["id"],
        advisory=record["id"],
    )


def _releases(exposure: Exposure) -> str:
    """The releases that are possible: "DeepSpeed 0.15.4 with PyTorch 2.6.0"."""
    words = [
        f"{in_prose(library)} {first}{f' to {last}' if last != first else ''}"
        for library, (first, last) in exposure.releases.items()
    ]
    return " with ".join(words)


def _place(config: Config, record: AdvisoryRecord) -> tuple[KeyPath | None, Span, str]:
    """The first of the keys that the config writes, if only as "auto"; else its opening."""
    for name in record["keys"]:
        path = tuple(name.split("."))
        member = config.member(*path)
        if member is not None and (config.is_written(path) or member.value.span in config.filled):
            return path, member.value.span if not member.value.members else member.key_span, _LABEL
    return None, config.opening, _LABEL


def _pins(config: Config, exposure: Exposure) -> Iterator[Related]:
    for library in exposure.releases:
        if (pin := config.basis.pins.get(library)) is not None:
            yield from related_pin(config, pin)

"""The advisories whose defects a config reaches, or may reach."""

from __future__ import annotations

from ds_lint.knowledge.advisories import exposures, facts_of
from ds_lint.knowledge.unknown import UNKNOWN, Unknown
from ds_lint.semantics.advisory_conditions import holds, unknown_names
from ds_lint.semantics.config import once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.advisories import Exposure
    from ds_lint.knowledge.records import AdvisoryRecord, StackLibrary
    from ds_lint.semantics.config import Config

_OF_STACKS: tuple[StackLibrary, ...] = ("transformers", "accelerate")


def _note_releases(config: Config, exposure: Exposure) -> None:
    """Let it be known that other releases are without the defect."""
    affected = exposure.record["libraries"]
    if "deepspeed" in affected:
        config.knowledge.depends_on_deepspeed([facts_of("deepspeed", affected["deepspeed"])])
    for library in _OF_STACKS:
        if library in affected:
            config.knowledge.depends_on(library, [facts_of(library, affected[library])])


def reaches(config: Config, record: AdvisoryRecord) -> bool | Unknown:
    """Whether a config reaches a defect of its releases; UNKNOWN if a fact is missing, as whether its stack has it."""
    affected = _affected(config, record)
    holding = holds(config, record["when"]) if affected else False
    return UNKNOWN if holding is True and len(affected) < len(config.stacks) else holding


@once
def certain(config: Config) -> list[Exposure]:
    """The advisories that all pinned releases have and that the config certainly reaches."""
    found = [one for one in _reportable(config) if one.is_certain and reaches(config, one.record) is True]
    for exposure in found:
        _note_releases(config, exposure)
    return found


def possible(config: Config) -> dict[str, list[str]]:
    """What is not known, by the ids of the other advisories that neither the pins nor the config rule out."""
    reached = [exposure.record["id"] for exposure in certain(config)]
    found = {}
    for exposure in _reportable(config):
        record = exposure.record
        if record["id"] in reached or reaches(config, record) is False:
            continue
        unknown = [f"the release of {library}" for library in exposure.undecided]
        unknown += [] if len(_affected(config, record)) == len(config.stacks) else ["the stack"]
        unknown += [] if holds(config, record["when"]) is True else unknown_names(config, record["when"])
        found[record["id"]] = list(dict.fromkeys(unknown))
    return found


def _reportable(config: Config) -> list[Exposure]:
    return [one for one in exposures(config.basis.pins) if one.record["id"] not in config.basis.skipped_advisories]


def _affected(config: Config, record: AdvisoryRecord) -> list[Stack]:
    """The possible stacks that have the defect."""
    return [stack for stack in config.stacks if stack in record.get("stacks", config.stacks)]

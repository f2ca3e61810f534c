"""The advisories whose defects a config reaches, or may reach."""

from __future__ import annotations

from ds_lint.knowledge.advisories import exposures, facts_of
from ds_lint.record import Record, field
from ds_lint.semantics.advisory_conditions import holds, unknown_names
from ds_lint.semantics.config import once

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.advisories import Exposure
    from ds_lint.knowledge.records import StackLibrary
    from ds_lint.semantics.config import Config

_OF_STACKS: tuple[StackLibrary, ...] = ("transformers", "accelerate")


class Reached(Record):
    """The advisories that certainly apply, and by id what is not known of those that may."""

    certain: list[Exposure] = field(factory=list)
    unknown: dict[str, list[str]] = field(factory=dict)


def _note_releases(config: Config, exposure: Exposure) -> None:
    """Let it be known that other releases are without the defect."""
    affected = exposure.record["libraries"]
    if "deepspeed" in affected:
        config.knowledge.depends_on_deepspeed([facts_of("deepspeed", affected["deepspeed"])])
    for library in _OF_STACKS:
        if library in affected:
            config.knowledge.depends_on(library, [facts_of(library, affected[library])])


@once
def reached(config: Config) -> Reached:
    """The advisories of the pinned releases that are not ruled out by the config and what is known beside it."""
    found = Reached()
    for exposure in exposures(config.basis.pins):
        record = exposure.record
        stacks = record.get("stacks", config.stacks)
        known = [stack for stack in config.stacks if stack in stacks]
        holding = holds(config, record["when"]) if known else False
        if holding is False:
            continue
        is_of_stacks = len(known) == len(config.stacks)
        if exposure.is_certain and holding is True and is_of_stacks:
            found.certain.append(exposure)
            _note_releases(config, exposure)
            continue
        unknown = [f"the release of {library}" for library in exposure.undecided]
        unknown += [] if is_of_stacks else ["the stack"]
        unknown += [] if holding is True else unknown_names(config, record["when"])
        found.unknown[record["id"]] = list(dict.fromkeys(unknown))
    return found

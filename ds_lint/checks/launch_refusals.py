"""A rule about flags of a launch that the training framework rejects (DS675)."""

from __future__ import annotations

from ds_lint.checks.recipes import advice
from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.refusals import refusal
from ds_lint.frameworks.record import OFF, TRUE
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.features import zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.semantics.config import Config


@rule("DS675", "launch-rejected", severity="error", effects=("rejected",), elsewhere=True)
def launch_rejected(config: Config) -> Iterator[Problem]:
    """Flags of a launch that the training framework rejects, with DeepSpeed as it is."""
    launch = config.facts.launch
    framework = launch.framework if launch is not None and launch.recipe is None else None
    if launch is None or framework is None or not config.root.members:
        return
    values = {name: _typed(value) for name, value in launch.values.items()}
    found = refusal(framework.name, values, zero_stage(config), config.basis.pins.get(framework.package))
    if found is None:
        return
    places = [launch.at_flag(name, name) for name in found.fields]
    release = f" {found.release}" if found.release is not None else ""
    yield Problem(
        None,
        config.opening,
        f"{framework.name}{release} rejects the launch: {found.sentence}",
        rejected("initialize"),
        help=advice(found),
        label="rejected with this config",
        related=[place for _, related in places for place in related],
    )


def _typed(value: Any) -> Any:
    """A word as HfArgumentParser takes it, as far as a condition asks."""
    if value is None or (value is not UNKNOWN and value in TRUE):
        return True  # a flag without a value, too
    return False if value is not UNKNOWN and value in OFF else value

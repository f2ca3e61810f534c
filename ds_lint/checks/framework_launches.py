"""Rules about the command line of a training framework (DS673)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.problem import Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.related import place_of_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config


@rule("DS673", "argument-not-taken", severity="error", effects=("rejected", "risk"), elsewhere=True)
def argument_not_taken(config: Config) -> Iterator[Problem]:
    """An argument of a training framework that it does not have, or whose value it does not take."""
    launch = config.facts.launch
    if launch is None or launch.launch.framework is None:
        return
    from ds_lint.semantics.recipe_fields import refused_at_launch  # few launches are of a framework

    key, span = place_of_launch(config)
    for one in refused_at_launch(launch, config.basis.pins, config.basis.copies):
        refused = one.refused
        yield Problem(
            key,
            span,
            refused.message,
            refused.outcome,
            help=refused.help,
            label="of this launch",
            severity=refused.severity,
            related=[Related(one.span, refused.label, one.document.path)],
            subject=(one.name, one.document.path, one.span),
        )

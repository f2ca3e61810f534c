"""Other places that take part in a problem: values of the config, and training arguments."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.config import Config


def beside(config: Config, *path: str) -> list[Related]:
    """The value under a key path as another place that takes part, with what it says; none where there is none."""
    member = config.member(*path)
    return [Related(member.value.span, f"{path[-1]} {member.value.value}")] if member else []


def given_at(argument: Argument, label: str) -> list[Related]:
    """The place in a file where a training argument was given; none where it came as a flag or is a default."""
    if argument.document is None or argument.span is None:
        return []
    return [Related(argument.span, label, argument.document.path)]

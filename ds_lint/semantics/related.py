"""Other places that take part in a problem: values of the config, and training arguments."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.training import Argument
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span


def beside(config: Config, *path: str) -> list[Related]:
    """The value under a key path as another place that takes part, with what it says; none where there is none."""
    member = config.member(*path)
    return [Related(member.value.span, f"{path[-1]} {member.value.value}")] if member else []


def given_at(argument: Argument, label: str) -> list[Related]:
    """The place in a file where a training argument was given; none where it came as a flag or is a default."""
    if argument.document is None or argument.span is None:
        return []
    return [Related(argument.span, label, argument.document.path)]


def launched(launch: LaunchFacts, label: str) -> Related:
    """The line of a launch as another place that takes part."""
    return Related(launch.place, label, launch.document.path)


def place_of_launch(config: Config) -> tuple[KeyPath | None, Span]:
    """Where a finding about the launch of a config is in the config: at the ZeRO stage, else at the first key."""
    stage = config.member("zero_optimization", "stage")
    if stage is not None:
        return ("zero_optimization", "stage"), stage.value.span
    return None, config.document_start

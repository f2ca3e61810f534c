"""What a rule yields: a problem, and its outcome with each stack."""

from __future__ import annotations

from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from dataclasses import KW_ONLY

    from ds_lint.diagnostics.finding import Effect, Fix, Related, Severity, Stack, Stage
    from ds_lint.source.tree import KeyPath, Span


class Outcome(Record):
    """What one stack does: an effect, and for ``rejected`` the stage at which it raises."""

    effect: Effect
    stage: Stage | None = None


IGNORED = Outcome("ignored")
OVERRIDDEN = Outcome("overridden")
NO_EFFECT = Outcome("no-effect")
WRONG_RESULT = Outcome("wrong-result")
RISK = Outcome("risk")
ADVICE = Outcome("advice")


def rejected(stage: Stage) -> Outcome:
    """The stack raises at this stage."""
    return Outcome("rejected", stage)


class Problem(Record):
    """One problem, before it is known which stacks may load the config.

    ``outcomes`` is one outcome if every stack does the same, else an outcome by stack; a stack that is missing
    there has no problem. ``key`` is the key path of the node that the problem is about. ``subject`` is what makes it
    another problem than one of the same rule at the same key: the number of ranks, or the argument. A config of several
    launches shows those with the same subject as one. None is the message, which is right unless it names its origin.
    """

    key: KeyPath | None
    span: Span
    message: str
    outcomes: Outcome | dict[Stack, Outcome]
    _: KW_ONLY
    help: str
    label: str = ""
    severity: Severity | None = None  # None: the rule's own
    related: list[Related] = field(factory=list)
    fix: Fix | None = None
    subject: Hashable = None
    advisory: str | None = None  # the id of the advisory that it is about

"""What is said about the logs of a run, together with the project that was run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.logs.causes import causes
from ds_lint.logs.record import world_size_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.logs.cause import Cause, Reported
    from ds_lint.logs.record import Log

_BEFORE_STEPS = ("load", "parse", "initialize")


class Contradiction(NamedTuple):
    """A finding that says that the run stops before its first step, and a log that shows steps."""

    reported: Reported
    path: str
    line: int


@dataclass(slots=True)
class Diagnosis:
    """Causes, and what is known beside them."""

    logs: list[Log]
    causes: list[Cause]
    others: list[Reported] = field(default_factory=list)  # findings of the project that no cause is about
    contradictions: list[Contradiction] = field(default_factory=list)
    unread: int = 0

    @property
    def releases(self) -> dict[str, str]:
        """The releases that the logs name."""
        return {name: release for log in self.logs for name, release in log.releases.items()}

    @property
    def world_size(self) -> int | None:
        """The number of ranks, if a log names it."""
        return world_size_in(self.logs)


def diagnosis(logs: Sequence[Log], findings: Sequence[Reported] = (), unread: int = 0) -> Diagnosis:
    """Put logs and findings together."""
    found = causes(logs, findings)
    used = {id(one.finding) for one in found if one.finding is not None}
    others = [one for one in findings if id(one.finding) not in used]
    return Diagnosis(list(logs), found, others, list(_contradictions(logs, others)), unread)


def _contradictions(logs: Sequence[Log], findings: Sequence[Reported]) -> list[Contradiction]:
    stepped = next((log for log in logs if log.course is not None and log.course.loss.count), None)
    if stepped is None or stepped.course is None:
        return []
    # The config that a log of an unknown release prints may be right for that release.
    unsure = {log.path for log in logs if "deepspeed" not in log.releases}
    return [
        Contradiction(one, stepped.path, stepped.course.loss.first_at)
        for one in findings
        if one.path not in unsure
        and one.finding.effect == "rejected"
        and one.finding.stage in _BEFORE_STEPS
        and one.finding.effects is None
    ]

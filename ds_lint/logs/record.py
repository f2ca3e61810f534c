"""What was read from logs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.logs.course import FEW

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.logs.course import Course
    from ds_lint.logs.exits import Exit
    from ds_lint.logs.tracebacks import RaisedException


class Hit(NamedTuple):
    """A line that a symptom is about."""

    symptom: str  # its id
    at: int
    text: str
    rank: int | None
    groups: dict[str, str]


@dataclass(slots=True)
class Log:
    """What one log says."""

    path: str
    rank: int | None = None  # of the whole file
    lines: int = 0
    raised: list[RaisedException] = field(default_factory=list)
    exits: list[Exit] = field(default_factory=list)
    ended_well: int = 0
    hits: dict[str, list[Hit]] = field(default_factory=dict)  # by the id of the symptom, the first few
    course: Course | None = None
    releases: dict[str, str] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)  # world size, command, GPU
    config: dict[str, Any] | None = None  # that DeepSpeed has printed
    config_at: int = 0
    last_texts: list[str] = field(default_factory=list)  # of the lines with which it ends, without prefixes

    def goes_on_after(self, at: int) -> bool:
        """Whether the run went on after a line as if nothing had happened."""
        if any(one.status for one in self.exits) or self.course is None:
            return False
        places = self.course.loss.places
        return len(places) == FEW and places[0] > at


def world_size_in(logs: Iterable[Log]) -> int | None:
    """The number of ranks, if a log names it."""
    named = [int(size) for log in logs if (size := log.facts.get("world_size", "")).isdecimal() and int(size)]
    return max(named, default=None)

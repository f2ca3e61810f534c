"""A cause, and what shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.logs.messages import filled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.knowledge.symptoms import Confidence, Symptom
    from ds_lint.logs.record import Log
    from ds_lint.logs.tracebacks import RaisedException

CONFIDENCES: tuple[Confidence, ...] = ("certain", "likely", "possible")
_LONGEST_SHOWN = 120  # characters of an exception's text


class Reported(NamedTuple):
    """A finding of the project that was run, and where it is shown."""

    finding: Finding
    path: str
    line: int


class Follower(NamedTuple):
    """A rank that ended because another one had failed."""

    rank: int
    how: str


class ShownBy(NamedTuple):
    """A line of a log that shows a cause."""

    path: str
    line: int
    text: str


@dataclass(slots=True)
class Cause:
    """Why a run failed or went wrong."""

    message: str
    help: str
    library: str
    confidence: Confidence
    rank: int | None = None
    exception: str | None = None
    codes: list[str] = field(default_factory=list)  # of rules, the best first
    finding: Finding | None = None  # of the project, which explains it
    advisory: str | None = None
    key: str | None = None
    path: str | None = None  # of the script or file
    line: int | None = None
    phase: str | None = None
    explains: bool = False  # another cause
    is_of_course: bool = False  # it is about the numbers of the training
    is_of_end: bool = False  # ``exception`` is how a process ended
    memory: list[str] = field(default_factory=list)  # what the runs of the project need, in words
    evidence: list[ShownBy] = field(default_factory=list)
    followers: list[Follower] = field(default_factory=list)


def of_symptom(symptom: Symptom, groups: dict[str, str], evidence: Sequence[ShownBy], rank: int | None = None) -> Cause:
    """The cause that a symptom is; ``groups`` are what its pattern has found."""
    message, help_text = filled(symptom, groups)
    codes = list(symptom.codes)
    return Cause(
        message, help_text, symptom.library, symptom.confidence, rank=rank, codes=codes, evidence=list(evidence)
    )


def shown_exception(raised: RaisedException) -> str:
    """The class and the first line of an exception."""
    line = first_line(raised)
    return f"{raised.short_name}: {line}" if line else raised.short_name


def first_line(raised: RaisedException) -> str:
    """The first line of its message, cut where it is long."""
    line = next((line for line in raised.message.split("\n") if line.strip()), "")
    words = " ".join(line.split())
    return words if len(words) <= _LONGEST_SHOWN else f"{words[:_LONGEST_SHOWN].rsplit(' ', 1)[0]} ..."


def evidence_of(log: Log, raised: RaisedException) -> ShownBy:
    """The line of a log with an exception."""
    return ShownBy(log.path, raised.at, shown_exception(raised))

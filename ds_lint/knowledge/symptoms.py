"""What texts of logs mean that no rule is about: ``schemas/symptoms.json``, the one list of them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from ds_lint.knowledge import tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ds_lint.knowledge.records import SymptomRecord

# ``last`` is a line with which a log ends, ``end`` one that tells how a process ended, ``exit`` what such an end means.
Where = Literal["exception", "line", "last", "end", "exit", "course"]
Role = Literal["cause", "victim", "wrapper", "release", "fact", "well"]
Confidence = Literal["certain", "likely", "possible"]


_LONGEST = 5000  # characters of a message that are searched; a log can hold anything


class Symptom(NamedTuple):
    """A text of a log, and what it means."""

    id: str
    where: Where
    role: Role
    library: str
    message: str
    help: str
    raises: re.Pattern[str] | None  # the name of the class, without its module
    pattern: re.Pattern[str] | None  # in the message, or in the line
    frames: re.Pattern[str] | None  # in "module:function" of one of the frames, as deepspeed/runtime/engine.py:step
    innermost: re.Pattern[str] | None  # the same of the innermost frame, if there is one
    anchor: str  # a text that a line must have
    beside: tuple[str, ...]  # symptoms that a line explains; without one of them it says nothing
    over: re.Pattern[str] | None  # a later line that shows that a log did not end waiting
    codes: tuple[str, ...]  # rules that report it before the run, the best first
    confidence: Confidence
    words: tuple[str, ...]  # what people call it
    examples: tuple[str, ...]
    by: str = ""  # who tells of an end
    reason: str | None = None  # of an end, if its words give one
    signal: int | None = None  # of an end, if its words name none


@cache
def symptoms() -> tuple[Symptom, ...]:
    """Every symptom, in the order of the store: what is special is before what is general."""
    return tuple(_symptom(record) for record in tables.load("symptoms")["symptoms"])


@cache
def by_id() -> dict[str, Symptom]:
    """Every symptom, by its id."""
    return {one.id: one for one in symptoms()}


@cache
def of_lines() -> tuple[Symptom, ...]:
    """The symptoms that are a line of a log."""
    return tuple(one for one in symptoms() if one.where == "line")


@cache
def of_ends() -> tuple[Symptom, ...]:
    """The lines that tell of the end of a process."""
    return tuple(one for one in symptoms() if one.where == "end")


class Match(NamedTuple):
    """A symptom, and what its pattern has found."""

    symptom: Symptom
    groups: dict[str, str]


def of_exception(name: str, message: str, frames: Sequence[tuple[str, str]]) -> Match | None:
    """The first symptom that an exception has; ``frames`` are path and function, the outermost first."""
    places = [f"{path}:{function}" for path, function in frames]
    if len(message) > _LONGEST:
        message = message[: _LONGEST * 4 // 5] + message[-_LONGEST // 5 :]
    for one in symptoms():
        if one.where != "exception":
            continue
        if one.raises is not None and not one.raises.fullmatch(name):
            continue
        if one.frames is not None and not any(one.frames.search(place) for place in places):
            continue
        if one.innermost is not None and places and not one.innermost.search(places[-1]):
            continue
        if one.pattern is None:
            return Match(one, {})
        if found := one.pattern.search(message):
            return Match(one, {key: value or "" for key, value in found.groupdict().items()})
    return None


def of_exit(description: str) -> Match | None:
    """The first symptom of the end of a process: by whom, the signal or status, and a reason, as ``slurm SIGKILL``."""
    for one in symptoms():
        if one.where == "exit" and one.pattern is not None and one.pattern.search(description):
            return Match(one, {})
    return None


def _symptom(record: SymptomRecord) -> Symptom:
    def compiled(text: str | None) -> re.Pattern[str] | None:
        return re.compile(text, re.DOTALL) if text is not None else None

    return Symptom(
        id=record["id"],
        where=record["where"],
        role=record.get("role", "cause"),
        library=record.get("library", ""),
        message=record.get("message", ""),
        help=record.get("help", ""),
        raises=compiled(record.get("raises")),
        pattern=compiled(record.get("pattern")),
        frames=compiled(record.get("frames")),
        innermost=compiled(record.get("innermost")),
        anchor=record.get("anchor", ""),
        beside=tuple(record.get("beside", ())),
        over=compiled(record.get("over")),
        codes=tuple(record.get("codes", ())),
        confidence=record.get("confidence", "likely"),
        words=tuple(record.get("words", ())),
        examples=tuple(record["examples"]),
        by=record.get("by", ""),
        reason=record.get("reason"),
        signal=record.get("signal"),
    )

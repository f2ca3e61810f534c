"""What a text that a user has seen means: an exception, a line of a log, an exit status, or what people call it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import symptoms
from ds_lint.knowledge.exceptions import explained
from ds_lint.logs.exits import NAMES, SIGNALS, Exit
from ds_lint.logs.messages import filled, of_rule

if TYPE_CHECKING:
    from collections.abc import Iterator

_RAISED = re.compile(r"^\s*(?:[\w.]+\.)?(\w+): (.*)$", re.DOTALL)
_STATUS = re.compile(
    r"(?:return code ?=?|exit(?:ed)?(?: with)?(?: status| code)?|exitcode|status)[ :=]*(-?\d+)"
    r"|^(-\d+|1[2-5]\d|2[34]\d)$",
    re.IGNORECASE,
)
_SIGNAL = re.compile(r"\b(SIG[A-Z]{2,5})\b|signal[ :]*(\d+)", re.IGNORECASE)
_SMALL = {"the", "is", "a", "an", "of", "in", "to", "and", "with", "my", "has", "on", "error", "what", "why"}
_ANYTHING = "words"
_SHORTEST = 8  # characters of a text that an exception's message is known by, without its class
MOST = 5


class Meaning(NamedTuple):
    """What a text may mean."""

    message: str
    help: str
    codes: tuple[str, ...]
    library: str


def meanings(text: str) -> list[Meaning]:
    """What a text may mean, the likeliest first; none if nothing is known of it."""
    found: dict[str, Meaning] = {}
    for one in (*_of_exception(text), *_of_lines(text), *_of_status(text), *_of_words(text)):
        found.setdefault(one.message, one)
    return list(found.values())[:MOST]


def _of_exception(text: str) -> Iterator[Meaning]:
    raised = _RAISED.match(text)
    pairs = [(raised[1], raised[2])] if raised else []
    for name, message in pairs:
        for record in explained(name, message, []):
            for code in record.rules[:2]:
                summary, help_text = of_rule(code)
                yield Meaning(summary, help_text, (code,), record.library)
            if not record.rules and record.because:
                where = f"{record.library} raises {name} in {record.function.rpartition('.')[2]}"
                yield Meaning(where, record.because, (), record.library)
        if (match := symptoms.of_exception(name, message, [])) is not None and match.symptom.message:
            yield _meaning(match.symptom, match.groups)
    for symptom in () if pairs else symptoms.symptoms():
        if symptom.where != "exception" or symptom.frames is not None or symptom.confidence == "possible":
            continue
        if symptom.pattern is None or symptom.pattern.search(_ANYTHING):
            continue  # only the name of the class tells
        found = symptom.pattern.search(text)
        if found is not None and symptom.message and len(found[0]) >= min(_SHORTEST, len(text)):
            yield _meaning(symptom, {key: value or "" for key, value in found.groupdict().items()})


def _of_lines(text: str) -> Iterator[Meaning]:
    for symptom in symptoms.of_lines():
        found = symptom.pattern.search(text) if symptom.pattern is not None and symptom.anchor in text else None
        if found is not None and symptom.message:
            yield _meaning(symptom, {key: value or "" for key, value in found.groupdict().items()})


def _of_status(text: str) -> Iterator[Meaning]:
    status = _STATUS.search(text)
    number = int(status[1] or status[2]) if status else None
    signal = Exit(0, number, "").signal if number is not None else None
    if (named := _SIGNAL.search(text)) is not None:
        signal = SIGNALS.get(named[1].upper()) if named[1] else int(named[2])
    if signal is None and number is None:
        return
    description = (
        f"process {NAMES.get(signal, f'signal {signal}')}" if signal is not None else f"process status {number}"
    )
    match = symptoms.of_exit(description)
    if match is not None:
        yield _meaning(match.symptom, {})


def _of_words(text: str) -> Iterator[Meaning]:
    """By what people call it: most words of a name that are in the text, in the order of how many."""
    lowered = " ".join(text.lower().split())
    words = set(re.findall(r"[\w/.-]{2,}", lowered)) - _SMALL
    scores = []
    for place, symptom in enumerate(symptoms.symptoms()):
        if not symptom.message:
            continue
        best = max((_likeness(name.lower(), lowered, words) for name in symptom.words), default=0.0)
        if best > 0:
            scores.append((-best, place, symptom))
    for _, _, symptom in sorted(scores, key=lambda one: one[:2]):
        yield _meaning(symptom, {})


def _likeness(name: str, text: str, words: set[str]) -> float:
    if name in text:
        return 100 + len(name)
    of_name = set(re.findall(r"[\w/.-]{2,}", name)) - _SMALL
    common = of_name & words
    if " " in text and text in name:
        return 50
    return len(common) if of_name and len(common) == len(of_name) else 0


def _meaning(symptom: symptoms.Symptom, groups: dict[str, str]) -> Meaning:
    message, help_text = filled(symptom, groups)
    return Meaning(message, help_text, symptom.codes, symptom.library)

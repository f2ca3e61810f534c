"""What the way in which processes ended means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.knowledge import symptoms
from ds_lint.logs import phases
from ds_lint.logs.cause import ShownBy, evidence_of, of_symptom, shown_exception
from ds_lint.logs.exits import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.logs.cause import Cause
    from ds_lint.logs.exits import Exit
    from ds_lint.logs.failing import First, KnownException
    from ds_lint.logs.record import Log

_SIGTERM = 15


def of_ends(logs: Sequence[Log], first: First, ends: Sequence[tuple[Log, Exit]]) -> Iterator[Cause]:
    """What the way in which processes ended shows."""
    seen: set[str] = set()
    ordered = [*(one for one in first.ends), *first.terminated]
    special = sorted(ordered, key=lambda one: (one.reason is None, one.signal in (None, 15), not one.is_root))
    for end in special:
        match = symptoms.of_exit(_described(end))
        if match is None or match.symptom.id in seen or (seen and end.reason is None):
            continue
        if end.reason is None and _is_of_victim(end, first):
            continue
        seen.add(match.symptom.id)
        log = next((log for log, one in ends if one.at == end.at), logs[0])
        cause = of_symptom(match.symptom, match.groups, [ShownBy(log.path, end.at, _described(end))], first.rank)
        cause.exception, cause.is_of_end = _status(end), True
        yield cause


def _described(end: Exit) -> str:
    return " ".join(filter(None, (end.by, _status(end), end.reason)))


def _status(end: Exit) -> str:
    if end.signal is None:
        return f"status {end.status}"
    return NAMES.get(end.signal, f"signal {end.signal}")


def _is_of_victim(end: Exit, first: First) -> bool:
    """Whether a rank ended because another one had: by the launcher, or with the exception of a lost connection."""
    if end.signal == _SIGTERM:
        return bool(first.victims or first.ends)
    lost = {one.raised.origin.rank for one in first.victims}
    return end.signal is None and bool(first.victims) and (end.rank is None or end.rank in lost)


def of_wrappers(found: Sequence[KnownException]) -> Iterator[Cause]:
    """What exceptions that only carry another one say of it, where the log does not have that one."""
    for one in found:
        if one.match is not None and one.match.symptom.message and one.role == "wrapper":
            cause = of_symptom(one.match.symptom, one.match.groups, [evidence_of(one.log, one.raised)])
            cause.exception, cause.phase = shown_exception(one.raised), phases.phase_of(one.raised)
            yield cause


def of_victims(first: First) -> Cause:
    """A rank lost its connection to another one, which shows nothing itself: it ended by itself, too early."""
    victim = first.victims[0]
    symptom = symptoms.by_id()["peer-ended-early"]
    groups = {"rank": str(victim.raised.origin.rank)} if victim.raised.origin.rank is not None else {}
    cause = of_symptom(symptom, groups, [evidence_of(victim.log, victim.raised)], first.rank)
    cause.exception = shown_exception(victim.raised)
    return cause

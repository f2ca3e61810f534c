"""What single lines of a log mean."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from ds_lint.knowledge import symptoms
from ds_lint.logs.cause import ShownBy, of_symptom

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from ds_lint.logs.cause import Cause
    from ds_lint.logs.failing import First
    from ds_lint.logs.record import Log

MOST_EVIDENCE = 4


def of_lines(logs: Sequence[Log], first: First, shown: set[str]) -> Iterator[Cause]:
    """What single lines show, if the run did not go on after them, and no exception shows it."""
    reported = {one.match.symptom.message for one in first.own if one.match is not None}
    for symptom in symptoms.of_lines():
        if symptom.role != "cause" or (symptom.beside and shown.isdisjoint(symptom.beside)):
            continue
        if symptom.message in reported:
            continue
        hits = [(log, hit) for log in logs for hit in log.hits.get(symptom.id, ()) if not log.goes_on_after(hit.at)]
        if hits:
            evidence = [ShownBy(one.path, it.at, it.text) for one, it in hits[:MOST_EVIDENCE]]
            cause = of_symptom(symptom, hits[0][1].groups, evidence, first.rank)
            cause.explains = bool(symptom.beside)
            yield cause


def of_last_lines(logs: Sequence[Log]) -> Iterator[Cause]:
    """What a log was doing when it ended, if it only waited."""
    for symptom in symptoms.symptoms():
        if symptom.where != "last" or symptom.pattern is None:
            continue
        for log in logs:
            found = next(filter(None, map(symptom.pattern.search, _last_texts(log, symptom.over))), None)
            if found is not None:
                groups = {key: value or "" for key, value in found.groupdict().items()}
                yield of_symptom(symptom, groups, [ShownBy(log.path, log.lines, found.string)])
                break


def _last_texts(log: Log, over: re.Pattern[str] | None) -> Iterator[str]:
    """The lines with which a log ends, the last first, back to one that shows that nothing waits."""
    return itertools.takewhile(lambda text: over is None or not over.search(text), reversed(log.last_texts))


def of_rank_behind(logs: Sequence[Log], world_size: int | None) -> Cause | None:
    """The rank that the others wait for, by the watchdogs of NCCL; None if more than one may be it.

    It is the rank that is at an earlier collective, or the only one whose watchdog says nothing.
    """
    hits = {hit.rank: (log, hit) for log in logs for hit in log.hits.get("nccl-watchdog", ()) if hit.rank is not None}
    at = {rank: int(sequence) for rank, (_, hit) in hits.items() if (sequence := hit.groups.get("sequence", ""))}
    behind = [rank for rank in at if at[rank] == min(at.values())] if len(set(at.values())) > 1 else []
    if hits and not behind and world_size is not None:
        behind = sorted(set(range(world_size)) - set(hits))
    if len(behind) != 1:
        return None
    log, hit = next(iter(hits.values()))
    symptom = symptoms.by_id()["rank-behind"]
    groups = hit.groups | {"rank": str(behind[0])}
    return of_symptom(symptom, groups, [ShownBy(log.path, hit.at, hit.text)], behind[0])

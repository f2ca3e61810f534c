"""From what logs say to causes: why a run failed or went wrong, the best first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.logs import failing
from ds_lint.logs.cause import CONFIDENCES, Follower
from ds_lint.logs.course_causes import of_courses
from ds_lint.logs.end_causes import of_ends, of_victims, of_wrappers
from ds_lint.logs.exception_causes import of_exception
from ds_lint.logs.line_causes import of_last_lines, of_lines, of_rank_behind
from ds_lint.logs.record import world_size_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ds_lint.logs.cause import Cause, Reported
    from ds_lint.logs.failing import First
    from ds_lint.logs.record import Log


def causes(logs: Sequence[Log], findings: Sequence[Reported] = ()) -> list[Cause]:
    """The causes that logs show, the best first; with the findings of the project that was run."""
    world_size = _world_size(logs)
    found = [one for one in failing.failures(logs) if not one.log.goes_on_after(one.raised.at)]
    ends = [(log, one) for log in logs for one in log.exits]
    first = failing.first(found, [one for _, one in ends], world_size)
    candidates: list[Cause] = []
    if first.own:
        releases = {name: release for log in logs for name, release in log.releases.items()}
        candidates.append(of_exception(first, findings, releases))
    shown = {one.match.symptom.id for one in found if one.match is not None}
    reported = {code for one in candidates for code in one.codes}
    by_line = of_lines(logs, first, shown | {id_ for log in logs for id_ in log.hits})
    candidates += [one for one in by_line if one.explains or reported.isdisjoint(one.codes)]
    if (behind := of_rank_behind(logs, world_size)) is not None:
        candidates.insert(0, behind)
    if not first.own or all(one.raised.is_loose for one in first.own):
        candidates += of_ends(logs, first, ends)
    if not candidates:
        candidates += of_wrappers(found)
    if not candidates and first.victims:
        candidates.append(of_victims(first))
    if not candidates:
        candidates += of_last_lines(logs)
    candidates += of_courses(logs, is_failed=bool(first.own or ends))
    for one in candidates:
        one.followers = _followers(first, one.rank)
    order = {id(one): place for place, one in enumerate(candidates)}
    return _different(
        sorted(candidates, key=lambda one: (not one.explains, CONFIDENCES.index(one.confidence), order[id(one)]))
    )


def _followers(first: First, rank: int | None) -> list[Follower]:
    """The ranks that only followed, each with what it shows of it."""
    lost = {one.raised.origin.rank: "lost its connection to another rank" for one in first.victims}
    ended = {one.rank: "ended by the launcher (SIGTERM)" for one in first.terminated}
    found = {one: how for one, how in (ended | lost).items() if one is not None and one != rank}
    return [Follower(one, found[one]) for one in sorted(found)]


def _world_size(logs: Sequence[Log]) -> int | None:
    if (named := world_size_in(logs)) is not None:
        return named
    files = {log.rank for log in logs if log.rank is not None}
    return len(files) if len(files) > 1 and files == set(range(len(files))) else None


def _different(found: Iterable[Cause]) -> list[Cause]:
    """Each cause once, by its message."""
    kept: dict[str, Cause] = {}
    for one in found:
        kept.setdefault(one.message, one)
    return list(kept.values())

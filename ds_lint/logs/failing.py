"""Which rank failed first, and which only followed, by what each of them shows.

A rank with an exception of its own comes before one that ended by a signal or a status, this before one that lost its
connection to another rank, and this before one that the launcher ended. ScriptLine in the log says little: the loudest
traceback is often that of a victim.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge import symptoms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ds_lint.knowledge.symptoms import Match
    from ds_lint.logs.exits import Exit
    from ds_lint.logs.record import Log
    from ds_lint.logs.tracebacks import RaisedException

_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+")
_SIGTERM = 15


class KnownException(NamedTuple):
    """An exception that ended a rank, with the symptom that it has."""

    log: Log
    raised: RaisedException
    match: Match | None

    @property
    def role(self) -> str:
        """What the symptom says of it."""
        return self.match.symptom.role if self.match is not None else "cause"

    @property
    def shape(self) -> tuple[str, str]:
        """The exception without what differs from rank to rank."""
        return self.raised.short_name, _NUMBERS.sub("0", self.raised.message.split("\n")[0])[:200]


def failures(logs: Iterable[Log]) -> list[KnownException]:
    """The exceptions of the logs, in order, each with its symptom."""
    return [
        KnownException(
            log, one, symptoms.of_exception(one.short_name, one.message, [(f.path, f.function) for f in one.frames])
        )
        for log in logs
        for one in log.raised
        if not one.is_ignored
    ]


class First(NamedTuple):
    """What failed first: exceptions, the best first, or else ends of processes."""

    rank: int | None
    own: list[KnownException]  # exceptions of their own
    ends: list[Exit]  # by a signal or a status, without SIGTERM
    victims: list[KnownException]
    terminated: list[Exit]


def first(found: Sequence[KnownException], ends: Sequence[Exit], world_size: int | None) -> First:
    """Order what was found by what shows a cause."""
    if any(one.rank is not None and not one.is_local for one in ends):
        ends = [one._replace(rank=None) if one.is_local else one for one in ends]
    own = [one for one in found if one.role not in ("victim", "wrapper") and not one.raised.is_loose]
    loose = [one for one in found if one.role not in ("victim", "wrapper") and one.raised.is_loose]
    victims = [one for one in found if one.role == "victim"]
    killed = [one for one in ends if one.signal not in (None, _SIGTERM)]
    failed = [one for one in ends if one.signal is None and one.status]
    terminated = [one for one in ends if one.signal == _SIGTERM]
    chosen = own or ([] if killed else loose)
    rank = _rank(chosen, [*killed, *failed], victims, terminated, world_size)
    return First(rank, chosen or loose, [*killed, *failed], victims, terminated)


def _rank(
    own: Sequence[KnownException],
    ends: Sequence[Exit],
    victims: Sequence[KnownException],
    terminated: Sequence[Exit],
    world_size: int | None,
) -> int | None:
    roots = [one.rank for one in ends if one.is_root and one.rank is not None]
    if own:
        ranks = list(dict.fromkeys(one.raised.origin.rank for one in own if one.raised.origin.rank is not None))
        by_shape = {one.shape for one in own}
        unknown = [one for one in own if one.raised.origin.rank is None]
        if len(by_shape) == 1 and (_are_all(ranks, world_size) or len(unknown) > 1):
            return None
        if ranks:
            return roots[0] if roots and roots[0] in ranks and len(by_shape) == 1 else ranks[0]
        failed = {one.rank for one in ends if one.rank is not None}
        return roots[0] if roots and len(failed) == 1 else None
    ranks = list(dict.fromkeys(one.rank for one in ends if one.rank is not None))
    named = [one.rank for one in ends if one.is_root and one.rank is not None]
    lost = {one.raised.origin.rank for one in victims if one.raised.origin.rank is not None}
    if ends and world_size is not None and lost and (left := set(range(world_size)) - lost) and len(left) == 1:
        return left.pop()
    candidates = [rank for rank in (named or ranks) if rank not in lost]
    if candidates and not (_are_all(ranks, world_size) and len(ranks) > 1 and len({e.status for e in ends}) == 1):
        return candidates[0]
    return None


def _are_all(ranks: Sequence[int], world_size: int | None) -> bool:
    """Whether these are all ranks, as far as is known."""
    if world_size is not None:
        return set(ranks) >= set(range(world_size))
    return len(ranks) > 1 and set(ranks) == set(range(len(ranks)))

"""From which release of one library does not work with which of another, to a few ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Failure(NamedTuple):
    """Why two releases do not work together."""

    what: str  # the name that is missing, or the release that is demanded
    kind: str  # "minimum", "name", "keyword"
    when: str  # "import" or "train"


Reasons = dict[tuple[str, str], set[Failure]]  # by the release of the library and that of the other


def rectangles(reasons: Reasons, library: Sequence[str], other: Sequence[str]) -> list[dict[str, Any]]:
    """Ranges of releases of both libraries, each with one reason, that together hold every pair that fails.

    The widest range is taken first, until no pair is left; a range may hold pairs that another has already.
    """
    left = set(reasons)
    found = []
    while left:
        best = max(
            (
                rectangle
                for failure in sorted({failure for pair in left for failure in reasons[pair]})
                for rectangle in _widest(failure, reasons, left, library, other)
            ),
            key=lambda one: (one[0], one[1].kind == "minimum", one[1]),
        )
        _, failure, (since, until), (since_other, until_other) = best
        found.append(
            {
                "since": library[since],
                "until": library[until],
                "since_other": other[since_other],
                "until_other": other[until_other],
                "what": failure.what,
                "kind": failure.kind,
                "when": failure.when,
            }
        )
        left -= {(one, two) for one in library[since : until + 1] for two in other[since_other : until_other + 1]}
    return sorted(found, key=lambda one: (library.index(one["since"]), other.index(one["since_other"])))


def _widest(
    failure: Failure, reasons: Reasons, left: set[tuple[str, str]], library: Sequence[str], other: Sequence[str]
) -> list[tuple[int, Failure, tuple[int, int], tuple[int, int]]]:
    """Every range of pairs that fail for one reason which cannot be made longer, with how many of those left it has."""
    runs = {place: _runs(failure, reasons, one, other) for place, one in enumerate(library)}
    found = []
    for stretch in sorted({run for those in runs.values() for run in those}):
        start: int | None = None
        for place in range(len(library) + 1):
            fits = place < len(library) and any(a <= stretch[0] and stretch[1] <= b for a, b in runs[place])
            if fits and start is None:
                start = place
            elif not fits and start is not None:
                pairs = {
                    (one, two) for one in library[start:place] for two in other[stretch[0] : stretch[1] + 1]
                }  # fmt: skip
                found.append((len(pairs & left), failure, (start, place - 1), stretch))
                start = None
    return found


def _runs(failure: Failure, reasons: Reasons, one: str, other: Sequence[str]) -> list[tuple[int, int]]:
    """The stretches of releases of the other library with which one release fails for this reason."""
    runs: list[tuple[int, int]] = []
    for place, two in enumerate(other):
        if failure in reasons.get((one, two), ()):
            if runs and runs[-1][1] == place - 1:
                runs[-1] = (runs[-1][0], place)
            else:
                runs.append((place, place))
    return runs

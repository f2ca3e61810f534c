"""Stretches of releases, as the store of advisories has them: where a defect was introduced, and where it was fixed."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


class Stretch(NamedTuple):
    """Releases without a gap."""

    introduced: str | None  # None: all older ones that are read have it
    fixed: str | None  # None: the newest has it

    def has(self, release: str) -> bool:
        """Whether a release is in it."""
        number = Version(release)
        if self.introduced is not None and number < Version(self.introduced):
            return False
        return self.fixed is None or number < Version(self.fixed)


def stretches(releases: Sequence[str], affected: Collection[str]) -> list[Stretch]:
    """The stretches that have these releases of an ordered list, however often the defect came and went."""
    found = []
    place = 0
    for is_affected, group in groupby(releases, lambda release: release in affected):
        start, place = place, place + len(list(group))
        if is_affected:
            introduced = releases[start] if start else None
            found.append(Stretch(introduced, releases[place] if place < len(releases) else None))
    return found


def within(releases: Iterable[str], parts: Sequence[Stretch]) -> set[str]:
    """The releases that are in one of the stretches."""
    return {release for release in releases if any(part.has(release) for part in parts)}


def words(releases: Sequence[str], affected: Collection[str]) -> str:
    """``0.17.6 to 0.18.2, 0.19.0``: the same for a person, from the first affected release of a stretch to the last."""
    runs = [list(group) for is_affected, group in groupby(releases, affected.__contains__) if is_affected]
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs) or "none"

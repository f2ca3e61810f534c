"""Releases that do not work together: ``schemas/pairs.json``, looked up for the releases that a project pins."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.record import Record
from ds_lint.targets.pin import LIBRARIES, is_exact, version_of
from ds_lint.targets.releases import allowed, numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from ds_lint.knowledge.records import PairConflict
    from ds_lint.targets.pin import Pin


# What specifiers allow together: every config of a project, and every launch of it, asks for the same.
_known: dict[frozenset[tuple[str, str]], list[tuple[PairConflict, str, str]]] = {}


class Clash(Record):
    """Two pins no releases of which work together: the newest known releases of them, and why those do not."""

    conflict: PairConflict
    pin: Pin
    release: str
    other_pin: Pin
    other: str

    @property
    def named(self) -> tuple[str, str]:
        """The releases as a person knows them: what is pinned exactly may be one that was withdrawn."""
        return _named(self.pin, self.release), _named(self.other_pin, self.other)


def clashes(pins: Mapping[str, Pin]) -> Iterator[Clash]:
    """Every two of these pins that allow no releases that work together.

    What the files of a project say is compared with what they say, and what is installed with what is installed in the
    same environment: it is not certain that the one is for the other.
    """
    stated = {name: pin for name, pin in pins.items() if not pin.is_installed}
    stated.update((name, pin.stated) for name, pin in pins.items() if pin.stated is not None)
    installed = {name: pin for name, pin in pins.items() if pin.is_installed}
    seen = set()
    for together in (stated, installed):
        for clash in _clashes(together):
            if (key := (clash.conflict["library"], clash.conflict["other"])) not in seen:
                seen.add(key)
                yield clash


def _clashes(pins: Mapping[str, Pin]) -> Iterator[Clash]:
    if len(pins) < 2:
        return
    specifiers = frozenset((name, pin.specifier) for name, pin in pins.items())
    if specifiers not in _known:
        _known[specifiers] = list(_conflicts(pins))
    for conflict, release, other in _known[specifiers]:
        yield Clash(conflict, pins[conflict["library"]], release, pins[conflict["other"]], other)


def _conflicts(pins: Mapping[str, Pin]) -> Iterator[tuple[PairConflict, str, str]]:
    """The conflicts, each with the newest releases that have it."""
    store = tables.load("pairs")
    by_pair: dict[tuple[str, str], list[PairConflict]] = {}
    for conflict in store["conflicts"]:
        if conflict["library"] in pins and conflict["other"] in pins:
            by_pair.setdefault((conflict["library"], conflict["other"]), []).append(conflict)
    for (library, other), conflicts in by_pair.items():
        known, known_others = _releases(library), _releases(other)
        possible = _possible(pins[library], known)
        others = _possible(pins[other], known_others)
        first = None
        for release in reversed(possible):
            for other_release in reversed(others):
                found = _of(conflicts, known.index(release), known_others.index(other_release), known, known_others)
                if found is None:
                    break
                first = first or (found, release, other_release)
            else:
                continue
            break
        else:
            if first is not None:
                yield first


def _possible(pin: Pin, known: list[str]) -> list[str]:
    """The known releases that a pin allows; of one that was withdrawn, the one before and the one after it."""
    found = allowed(pin.specifier, known)
    numbers = numbers_of(version_of(pin.specifier)) if not found and is_exact(pin.specifier) else None
    if numbers is None:
        return found
    places = [place for place, release in enumerate(known) if (numbers_of(release) or ()) < numbers]
    return known[places[-1] : places[-1] + 2] if places and places[-1] + 1 < len(known) else []


def _named(pin: Pin, release: str) -> str:
    return version_of(pin.specifier) if is_exact(pin.specifier) else release


def working(clash: Clash) -> tuple[str, str]:
    """A release of each library that works with the other's newest allowed one: what to write instead.

    The first is of the library that the other does not work with, the second of the other: the next newer release, or
    the next older one. Empty where there is none.
    """
    conflict = clash.conflict
    library, other = conflict["library"], conflict["other"]
    conflicts = [one for one in tables.load("pairs")["conflicts"] if (one["library"], one["other"]) == (library, other)]
    known, known_others = _releases(library), _releases(other)
    place, other_place = known.index(clash.release), known_others.index(clash.other)

    def works(one: int, two: int) -> bool:
        return _of(conflicts, one, two, known, known_others) is None

    first = _nearest([index for index in range(len(known)) if works(index, other_place)], place)
    second = _nearest([index for index in range(len(known_others)) if works(place, index)], other_place)
    return (known[first] if first is not None else "", known_others[second] if second is not None else "")


def _nearest(places: Sequence[int], wanted: int) -> int | None:
    """The first place behind the wanted one, else the last before it."""
    return next((place for place in places if place > wanted), places[-1] if places else None)


def _of(
    conflicts: Sequence[PairConflict], one: int, two: int, known: Sequence[str], others: Sequence[str]
) -> PairConflict | None:
    """The first conflict that two releases have, by their places among those that are known."""
    for conflict in conflicts:
        if _within(one, conflict.get("since"), conflict.get("until"), known) and _within(
            two, conflict.get("other_since"), conflict.get("other_until"), others
        ):
            return conflict
    return None


def _within(place: int, since: str | None, until: str | None, known: Sequence[str]) -> bool:
    return (since is None or known.index(since) <= place) and (until is None or place <= known.index(until))


def _releases(library: str) -> list[str]:
    """The known releases of a library, oldest first."""
    if library in LIBRARIES:
        return tables.load(library)["releases"]
    return tables.load("pairs")["releases"][library]

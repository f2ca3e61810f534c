"""Defects of releases: ``schemas/advisories.json``, and which of them a set of pins has.

A release counts only where the project names it, or has it installed: defects of a release that it may not have are not
reported. A floor such as ``>=0.14`` means the newest release, which is what is installed today.
"""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN, Unknown
from ds_lint.record import Record
from ds_lint.targets.pin import LIBRARIES, is_exact, version_of
from ds_lint.targets.releases import allowed, numbers_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ds_lint.knowledge.records import AdvisoryRecord, AdvisoryStore, AffectedReleases, StackFacts
    from ds_lint.targets.pin import Pin

DEFAULT_CODE = "DS847"
MARK = "DSA-"  # how every id begins

_by_id: dict[str, AdvisoryRecord] = {}
_indices: list[AdvisoryStore] = []
_of_pins: dict[frozenset[tuple[str, str]], list[Exposure]] = {}  # every config of a project, and every launch, asks
_decisive: list[frozenset[str]] = []


class Exposure(Record):
    """A defect that pinned releases have, or may have; the record has what decides about that, and not its texts.

    ``releases`` are those that are possible, by library: the first and the last of them. A library of which no release
    is known is not among them; ``undecided`` are those, and the ones of which some possible releases lack the defect.
    """

    record: AdvisoryRecord
    releases: dict[str, tuple[str, str]]
    undecided: list[str]

    @property
    def is_certain(self) -> bool:
        """Whether all releases that the pins allow have the defect."""
        return not self.undecided


def advisories() -> dict[str, AdvisoryRecord]:
    """Every advisory, by its id."""
    if not _by_id:
        _by_id.update((record["id"], record) for record in tables.load("advisories")["advisories"])
    return _by_id


def _index() -> AdvisoryStore:
    """What decides whether an advisory applies: an installed ds-lint has it compiled, without the texts and proofs."""
    if not _indices:
        try:
            _indices.append(__import__("ds_lint._built_advisories", fromlist=["INDEX"]).INDEX)
        except ImportError:  # in a checkout
            _indices.append(tables.load("advisories"))
    return _indices[0]


def named(word: str) -> AdvisoryRecord | None:
    """The advisory of this id, whatever the case of its letters; None if there is none."""
    return advisories().get(word.upper()) if is_id(word) else None


def is_id(word: str) -> bool:
    """Whether a word has the form of an id."""
    return word.upper().startswith(MARK)


def code_of(record: AdvisoryRecord) -> str:
    """The code of the rule that reports an advisory."""
    return record.get("code", DEFAULT_CODE)


def exposures(pins: Mapping[str, Pin]) -> list[Exposure]:
    """The advisories whose releases the pins certainly or possibly allow.

    Of a pair, what the files of a project say is combined with what they say, and what is installed with what is
    installed in the same environment: it is not certain that the one is for the other.
    """
    stated = {library: pin for library, pin in pins.items() if not pin.is_installed}
    installed = {library: pin for library, pin in pins.items() if pin.is_installed}
    found = {one.record["id"]: one for one in _exposures(stated)}
    for one in _exposures(installed):
        before = found.get(one.record["id"])
        if before is None and any(library in stated for library in one.undecided):
            continue  # of which a file pins a release without the defect
        if before is None or (one.is_certain and not before.is_certain):
            found[one.record["id"]] = one
    return list(found.values())


def _exposures(pins: Mapping[str, Pin]) -> list[Exposure]:
    specifiers = frozenset((library, pin.specifier) for library, pin in pins.items())
    if specifiers not in _of_pins:
        possible = {library: _possible(library, specifier) for library, specifier in specifiers}
        found = [_exposure(record, possible) for record in _index()["advisories"]]
        _of_pins[specifiers] = [one for one in found if one is not None]
    return _of_pins[specifiers]


def _exposure(record: AdvisoryRecord, possible: Mapping[str, Sequence[str]]) -> Exposure | None:
    """What releases have of a defect: of a pair, one release must be known, and none may be without it."""
    libraries = record["libraries"]
    if not any(map(possible.get, libraries)):
        return None
    states = {}
    for library, stretches in libraries.items():
        states[library] = state = _state(library, stretches, possible.get(library, ()))
        if state is False:
            return None
    releases = {library: (each[0], each[-1]) for library in record["libraries"] if (each := possible.get(library))}
    return Exposure(record, releases, [library for library, state in states.items() if state is not True])


def _state(library: str, stretches: Iterable[AffectedReleases], possible: Sequence[str]) -> bool | Unknown | None:
    """Whether releases have a defect: UNKNOWN if only some of them do, None if no release is known."""
    if not possible:
        return None
    affected = [is_affected(library, stretches, release) for release in possible]
    return affected[0] if len(set(affected)) == 1 else UNKNOWN


def is_affected(library: str, stretches: Iterable[AffectedReleases], release: str) -> bool:
    """Whether a release lies in one of the stretches; one whose number is not plain lies in none.

    A stretch without a beginning begins with the oldest release whose sources were read.
    """
    numbers, oldest = numbers_of(release), _index()["read_since"].get(library, "0")
    return numbers is not None and any(
        (numbers_of(one["introduced"] or oldest) or ()) <= numbers
        and (one["fixed"] is None or numbers < (numbers_of(one["fixed"]) or ()))
        for one in stretches
    )


def affected_releases(library: str, stretches: Iterable[AffectedReleases], releases: Iterable[str]) -> list[str]:
    """Those among some releases that have a defect."""
    stretches = list(stretches)
    return [release for release in releases if is_affected(library, stretches, release)]


def facts_of(library: str, stretches: Iterable[AffectedReleases]) -> StackFacts:
    """The stretches as other stores write them: with the last affected release instead of the first without it."""
    known = known_releases(library)
    runs: list[StackFacts] = []
    for one in stretches:
        inside = affected_releases(library, [one], known)
        if inside:
            runs.append({"since": inside[0]} if inside[-1] == known[-1] else {"since": inside[0], "until": inside[-1]})
    return {"runs": runs}


def known_releases(library: str) -> list[str]:
    """The known releases of a library, oldest first; none of one that no advisory is about."""
    if library in LIBRARIES:
        return tables.load(library)["releases"]
    return _index()["releases"].get(library, [])


def _possible(library: str, specifier: str) -> Sequence[str]:
    """The releases that count for a pin: the newest where nothing bounds it from above.

    A release that is pinned exactly counts also where it is not known, as one that was withdrawn.
    """
    known = known_releases(library)
    found = allowed(specifier, known)
    if len(found) > 1 and found[-1] == known[-1]:
        return found[-1:]
    if not found and is_exact(specifier) and known and numbers_of(version_of(specifier)) is not None:
        is_older = (numbers_of(version_of(specifier)) or ()) < (numbers_of(known[-1]) or ())
        return [version_of(specifier)] if is_older else []
    return found


def decisive_calls() -> frozenset[str]:
    """The names of functions and classes whose calls in a script decide about an advisory."""
    if not _decisive:
        import re

        called = re.compile(r"\b(?:calls|keyword)\('([\w.]+)'")
        found = (called.findall(record["when"]) for record in _index()["advisories"])
        _decisive.append(frozenset(name for names in found for name in names))
    return _decisive[0]

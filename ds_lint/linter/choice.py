"""Which releases a config is checked against, and why: flags, the project, what is installed, or the newest known.

A pin that is a range leaves several releases; a finding then names the affected ones.
"""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import Target
from ds_lint.record import Record, field
from ds_lint.targets.pin import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.targets.pin import Library, Pin, PinPlace

NEWEST_KNOWN = "newest known"
OF_UPGRADE = "asked for"  # by an upgrade
# If a pin names no oldest release of DeepSpeed, this one is taken: earlier releases are hardly used any more, and
# transformers has required 0.9.3 since 4.31.0.
OLDEST_UNASKED = "0.9.0"

NAMES = {"deepspeed": "DeepSpeed", "transformers": "transformers", "accelerate": "accelerate"}


class UnknownRelease(ValueError):  # noqa: N818 - it is the user's word that is unknown
    """A version on the command line that is not a release; the message says which are known."""


class Choice(Record):
    """The releases of each library that are possible, oldest first, and where they come from.

    ``pins`` are those of libraries and companions of which the project, its environment or the user names a version.
    """

    releases: dict[str, list[str]] = field(factory=dict)
    origins: dict[str, str] = field(factory=dict)
    notes: list[str] = field(factory=list)
    pins: dict[str, Pin] = field(factory=dict)

    @property
    def newest(self) -> Target:
        """The newest possible release of each library."""
        return Target(*(self.releases[library][-1] for library in LIBRARIES))

    @property
    def oldest(self) -> Target:
        """The oldest possible release of each library."""
        return Target(*(self.releases[library][0] for library in LIBRARIES))

    def pins_of(self, target: Target) -> dict[str, Pin]:
        """The releases that an upgrade goes through, as pins: it asks about each as if the project pinned it."""
        those = [library for library in LIBRARIES if self.origins[library] == OF_UPGRADE]
        return {library: _pin_of(library, [getattr(target, library)], OF_UPGRADE) for library in those}

    def __str__(self) -> str:
        by_origin: dict[str, list[str]] = {}
        for library in LIBRARIES:
            release = " to ".join(self.ranges.get(library, self.releases[library][-1:]))
            by_origin.setdefault(self.origins[library], []).append(f"{library} {release}")
        return ", ".join(f"{', '.join(releases)} ({origin})" for origin, releases in by_origin.items())

    @property
    def ranges(self) -> dict[str, tuple[str, str]]:
        """The oldest and the newest release of each library of which several are possible."""
        return {library: (each[0], each[-1]) for library, each in self.releases.items() if len(each) > 1}

    @property
    def is_range(self) -> bool:
        """Whether more than one release of a library is possible."""
        return bool(self.ranges)


def choose(
    directory: str,
    flags: dict[str, str],
    pins: dict[str, Pin] | None = None,
    *,
    given_by: dict[str, PinPlace | str] | None = None,
    first: dict[str, Pin] | None = None,
) -> Choice:
    """The releases that the configs of a directory are checked against. Raises UnknownRelease for other flags.

    Without ``pins``, what the project around the directory pins, and what is installed, is looked up; the pins in
    ``first`` decide over those. ``given_by`` has, by library, what gives a version in ``flags`` where it is not the
    command line.
    """
    choice = Choice()
    if pins is None and any(library not in flags for library in LIBRARIES):
        from ds_lint.targets.project import used

        pins = used(directory, first)
    pins = pins or {}
    choice.pins = {library: pin for library, pin in pins.items() if pin.specifier and library not in flags}
    for library in LIBRARIES:
        known = tables.load(library)["releases"]
        if library in flags:
            who = (given_by or {}).get(library)
            choice.releases[library] = _of_flag(library, flags[library], known, choice, str(who or "the command line"))
            choice.pins[library] = _pin_of(library, choice.releases[library], who or f"--{library}-version")
            choice.origins[library] = choice.pins[library].source
        elif library in pins and not pins[library].specifier:
            choice.releases[library] = known[-1:]
            choice.origins[library] = NEWEST_KNOWN
            choice.notes.append(
                f"{pins[library].source} installs {NAMES[library]} from a URL without a release; checked against the "
                f"newest known release, {known[-1]} (set --{library}-version for another)"
            )
        elif library in pins:
            choice.releases[library] = _of_pin(pins[library], known, choice)
            choice.origins[library] = pins[library].source
        else:
            choice.releases[library] = known[-1:]
            choice.origins[library] = NEWEST_KNOWN
    _warn_of_untested(choice)
    return choice


def _pin_of(library: Library, releases: list[str], source: PinPlace | str) -> Pin:
    """What a flag says, as a pin."""
    from ds_lint.targets.pin import OR, Pin

    return Pin(library, OR.join(f"=={release}" for release in releases), source)


def between(
    directory: str,
    ends: dict[Library, tuple[str, str | None]],
    stated: dict[str, str] | None = None,
    *,
    given_by: dict[str, PinPlace | str] | None = None,
) -> Choice:
    """All releases from one to another, by library; None is the newest known. Raises UnknownRelease.

    Of a library that stays, it is the newest that the project allows, or that ``stated`` allows.
    """
    for library, (first, _) in ends.items():
        left = Choice()
        _of_flag(library, first, tables.load(library)["releases"], left)
        if left.notes or not first.strip().removeprefix("v")[:1].isdigit():
            raise UnknownRelease(f"ds-lint does not know {library} {first}; an upgrade must start at a known release")
    left_releases = {library: first for library, (first, _) in ends.items()}
    choice = choose(directory, (stated or {}) | left_releases, given_by=given_by)
    for library in LIBRARIES:
        if library not in ends:
            choice.releases[library] = choice.releases[library][-1:]
            continue
        known = tables.load(library)["releases"]
        oldest, last = choice.releases[library][0], ends[library][1]
        newest = _of_flag(library, last, known, choice)[-1] if last else known[-1]
        if known.index(newest) < known.index(oldest):
            raise UnknownRelease(f"{NAMES[library]} {newest} is older than {oldest}")
        choice.releases[library] = known[known.index(oldest) : known.index(newest) + 1]
        choice.origins[library] = OF_UPGRADE
    choice.pins = {}
    return choice


def _warn_of_untested(choice: Choice) -> None:
    known = tables.load("deepspeed")["releases"]
    oldest = choice.releases["deepspeed"][0]
    if known.index(oldest) < known.index(OLDEST_UNASKED):
        choice.notes.append(
            f"findings for DeepSpeed below {OLDEST_UNASKED} come from its source code, and are not tested in runs"
        )


def _of_flag(library: str, wanted: str, known: list[str], choice: Choice, who: str = "the command line") -> list[str]:
    """A release, a line such as ``0.16`` (its newest patch), or a specifier such as ``>=0.14``."""
    wanted = wanted.strip().removeprefix("v")
    if wanted in known:
        return [wanted]
    if wanted[:1].isdigit():
        patches = [release for release in known if release.rpartition(".")[0] == wanted]
        if patches:
            return patches[-1:]
        wanted = f"=={wanted}"
    elif wanted[:1] not in ("=", "!", "<", ">", "~"):
        raise _no_version(library, wanted)
    from ds_lint.targets.releases import allowed

    found = allowed(wanted, known)
    if found:
        return _from_oldest_unasked(library, found, known)
    _demand_a_version(library, wanted)
    if _is_newer(wanted, known):
        choice.notes.append(_newer(who, library, wanted, known))
        return known[-1:]
    raise UnknownRelease(
        f"ds-lint does not know {NAMES[library]} {wanted.removeprefix('==')}; it knows {known[0]} to {known[-1]}"
    )


def _demand_a_version(library: str, wanted: str) -> None:
    """Raise UnknownRelease for an invalid specifier, such as ``==0.16.x``."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(wanted)
    except InvalidSpecifier:
        raise _no_version(library, wanted.removeprefix("==")) from None


def _no_version(library: str, wanted: str) -> UnknownRelease:
    return UnknownRelease(f'{wanted!r} is not a valid version of {NAMES[library]}; write 0.16.9, 0.16 or ">=0.14"')


def _of_pin(pin: Pin, known: list[str], choice: Choice) -> list[str]:
    from ds_lint.targets.releases import allowed

    found = allowed(pin.specifier, known)
    if found and _oldest_wanted(pin.specifier) is None:
        return found[-1:]  # old releases are not known, and this is what pip installs
    if found:
        return _from_oldest_unasked(pin.library, found, known)
    if _is_newer(pin.specifier, known):
        choice.notes.append(_newer(pin.source, pin.library, pin.specifier, known))
        return known[-1:]
    oldest_wanted = _oldest_wanted(pin.specifier)
    nearest = (allowed(f"<={oldest_wanted}", known) if oldest_wanted else known)[-1:] or known[:1]
    choice.notes.append(
        f"{pin.source} asks for {NAMES[pin.library]} {pin.specifier}, which ds-lint does not know; "
        f"checked against {nearest[0]}"
    )
    return nearest


def _from_oldest_unasked(library: str, found: list[str], known: list[str]) -> list[str]:
    """What is allowed, without the releases of the first years, unless they are named."""
    if library != "deepspeed" or found[0] != known[0] or len(found) == 1:
        return found
    oldest = known.index(OLDEST_UNASKED)
    return [release for release in found if known.index(release) >= oldest] or found


def _is_newer(specifier: str, known: list[str]) -> bool:
    """Whether a specifier without a known release asks for one that is newer than all of them."""
    from ds_lint.targets.releases import allowed

    version = _oldest_wanted(specifier)
    if version is None:
        return False
    is_above = any(clause.strip() == f">{version}" for clause in specifier.split(","))
    return not allowed(f">{version}" if is_above else f">={version}", known)


def _oldest_wanted(specifier: str) -> str | None:
    """The version of the first clause that bounds a specifier from below; None if none does."""
    for clause in specifier.split(","):
        version = clause.strip().lstrip("=>~ ").partition("+")[0].removesuffix(".*").strip()
        if clause.strip()[:1] in ("=", ">", "~") and version[:1].isdigit():
            return version
    return None


def _newer(who: str, library: str, specifier: str, known: list[str]) -> str:
    return (
        f"{who} asks for {NAMES[library]} {specifier.removeprefix('==')}, which is newer than the releases that "
        f"ds-lint knows; checked against {known[-1]}"
    )

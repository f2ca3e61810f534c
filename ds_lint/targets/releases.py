"""From a specifier to the releases that it allows.

Plain versions, whose parts are all numbers, are compared here; ``packaging``, which takes three times as long to import
as a bare Python to start, is used for all others.
"""

from __future__ import annotations

from ds_lint.targets.pin import OR, is_exact, version_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Numbers = tuple[int, ...]

_OPERATORS = ("==", "!=", ">=", "<=", "~=", ">", "<")
_numbers: dict[str, Numbers | None] = {}  # by version: each is compared with others again and again
_MOST_DIGITS = 18  # a date has 8; Python refuses to read a number of more than 4300


def allowed(specifier: str, releases: Sequence[str]) -> list[str]:
    """The known releases that a specifier allows, in the order of ``releases``, which is oldest first.

    Empty if it asks for what is not known yet, or for nothing that there can be. A build of a release
    (``==0.16.9+cu121``, ``==0.17.0+3a4b2c``) is that release. A version on the way to a release (``==4.50.0.dev0``)
    lies between two: it allows the release that it leads to and the one before.
    """
    found: set[str] = set()
    for alternative in specifier.split(OR.strip()):
        found.update(_allowed_by(alternative.strip(), releases))
    return [release for release in releases if release in found]


def _allowed_by(specifier: str, releases: Sequence[str]) -> list[str]:
    if not is_exact(specifier):
        return _within(specifier, releases)
    version = version_of(specifier)
    if version in releases:
        return [version]
    numbers = numbers_of(version)
    return _around(version, releases) if numbers is None else [each for each in releases if numbers_of(each) == numbers]


def _within(specifier: str, releases: Sequence[str]) -> list[str]:
    clauses = [_clause(text.strip()) for text in specifier.split(",") if text.strip()]
    plain = [numbers for release in releases if (numbers := numbers_of(release)) is not None]
    known_clauses = [clause for clause in clauses if clause is not None]
    if len(plain) < len(releases) or len(known_clauses) < len(clauses):
        return _within_by_packaging(specifier, releases)
    return [
        release
        for release, numbers in zip(releases, plain, strict=True)
        if all(_holds(operator, version, numbers) for operator, version in known_clauses)
    ]


def _clause(text: str) -> tuple[str, str] | None:
    """Operator and version of a clause whose version is plain."""
    operator = next((operator for operator in _OPERATORS if text.startswith(operator)), "")
    version = text.removeprefix(operator).strip()
    is_open = version.endswith(".*") and operator in ("==", "!=")
    numbers = numbers_of(version.removesuffix(".*") if is_open else version)
    if not operator or numbers is None or (operator == "~=" and "." not in version):
        return None
    return operator, version


def _holds(operator: str, version: str, release: Numbers) -> bool:
    """Whether a clause holds for a release, as PEP 440 defines it for plain versions."""
    wanted = numbers_of(version.removesuffix(".*")) or ()
    if version.endswith(".*"):
        return (operator == "==") == _begins_with(release, version.count("."), wanted)
    if operator == "~=":
        prefix = version.rpartition(".")[0]
        return release >= wanted and _begins_with(release, prefix.count(".") + 1, numbers_of(prefix) or ())
    return {
        "==": release == wanted,
        "!=": release != wanted,
        ">=": release >= wanted,
        "<=": release <= wanted,
        ">": release > wanted,
        "<": release < wanted,
    }[operator]


def _begins_with(release: Numbers, length: int, wanted: Numbers) -> bool:
    return _without_zeros(release[:length]) == wanted


def numbers_of(version: str) -> Numbers | None:
    """The numbers of a plain version, the same for 1.15 and 1.15.0; None for any other version."""
    if version not in _numbers:
        _numbers[version] = _parsed(version)
    return _numbers[version]


def _parsed(version: str) -> Numbers | None:
    parts = version.split(".")
    if not version.isascii() or not all(part.isdecimal() and len(part) <= _MOST_DIGITS for part in parts):
        return None
    return _without_zeros(tuple(int(part) for part in parts))


def _without_zeros(numbers: Numbers) -> Numbers:
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    return numbers


def _around(version: str, releases: Sequence[str]) -> list[str]:
    """The releases that a version that is not a plain release stands for."""
    from packaging.version import Version

    try:
        wanted = Version(version)
        known = [Version(release) for release in releases]
    except ValueError:  # no version, or one with more digits than Python takes
        return []
    if wanted in known:
        return [releases[known.index(wanted)]]
    final = Version(wanted.base_version)
    if not wanted.is_prerelease or final not in known:
        return []
    place = known.index(final)
    return list(releases[max(place - 1, 0) : place + 1])


def _within_by_packaging(specifier: str, releases: Sequence[str]) -> list[str]:
    from packaging.specifiers import SpecifierSet

    try:
        return list(SpecifierSet(specifier).filter(releases))
    except ValueError:  # no specifier, or one with more digits than Python takes
        return []

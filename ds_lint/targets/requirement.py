"""One requirement, as PEP 508 writes it and pip takes it."""

from __future__ import annotations

import re

from ds_lint.targets.pin import Requirement, library_called

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.targets.pin import PinPlace

_NAMED = re.compile(r"\s*([A-Za-z][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(.*)", re.DOTALL)
_CLAUSE = re.compile(r"(===|[=~!<>]=|[<>])\s*([0-9][\w.*+!-]*)")

_VERSION = r"\d+\.\d+\.\d+(?:[._-]?(?:a|b|rc|post|dev)\d+)?"
# Rare, and slow to compile: ``re`` does it where one is met.
_TAG = rf"v?({_VERSION})"
_ARCHIVE = rf"(?:([A-Za-z]+)-)?v?({_VERSION})(?:(?:\+|%2B)[\w.]+)?(?:-[^/]*\.whl|\.tar\.gz|\.zip)"


def parse(text: str, place: PinPlace, *, is_conditional: bool = False) -> Requirement | None:
    """The requirement of a text, if it is about one of the libraries and says what it seems to say."""
    reference, _, marker = text.partition(" ;") if "://" in text else text.partition(";")
    name, specifier = _direct(reference) if "://" in reference else _by_version(reference)
    library = library_called(name)
    if library is None or specifier is None:
        return None
    return Requirement(
        library,
        specifier,
        place,
        is_address="://" in reference and not specifier,
        is_conditional=is_conditional or bool(marker.strip()),
    )


def specifier_of(text: str) -> str | None:
    """The clauses of a text without blanks, "" if it has none; None if there is something else, such as a template."""
    clauses = [clause.strip() for clause in text.split(",") if clause.strip()]
    matches = [_CLAUSE.fullmatch(clause) for clause in clauses]
    found = [f"{match[1]}{match[2]}" for match in matches if match]
    return ",".join(found) if len(found) == len(clauses) else None


def release_of_tag(tag: str) -> str | None:
    """The release that a tag of the libraries' repositories marks; None for a branch or a commit."""
    match = re.fullmatch(_TAG, tag.removeprefix("refs/tags/"))
    return match[1] if match else None


def _by_version(text: str) -> tuple[str, str | None]:
    match = _NAMED.fullmatch(text)
    if match is None:
        return "", None
    specifier = match[2].strip()
    if specifier.startswith("(") and specifier.endswith(")"):
        specifier = specifier[1:-1]
    return match[1], specifier_of(specifier)


def _direct(text: str) -> tuple[str, str | None]:
    """Name and specifier of ``name @ address``, or of the bare address that pip takes too."""
    named, _, address = text.partition("://")
    address, _, fragment = address.strip().partition("#")
    path = address.partition("/")[2]  # a user before the host has an @ too
    repository, _, tag = path.partition("@")
    file = repository.rpartition("/")[2]
    archive = re.fullmatch(_ARCHIVE, file)
    release = release_of_tag(tag) or (archive[2] if archive else None)
    if "@" in named:
        match = _NAMED.fullmatch(named.partition("@")[0])
        name = match[1] if match else ""
    elif fragment.startswith("egg="):
        name = fragment.removeprefix("egg=").partition("[")[0].partition("&")[0]
    else:
        name = (archive[1] or "") if archive else file.removesuffix(".git")
    return name, f"=={release}" if release else ""

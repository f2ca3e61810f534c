"""Which advisory an exception is about: one whose proof raised the same, in the same file, in an affected release."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.knowledge.advisories import advisories, is_affected

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ds_lint.knowledge.records import AdvisoryRecord

_RAISED = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): ([^\n]+)")
_NUMBER = re.compile(r"\d+")
_COMPARED = 60  # characters of a message: proofs keep its beginning, and what follows differs between models


class _CrashText(NamedTuple):
    """What a proof has raised, and the files that have the defect."""

    record: AdvisoryRecord
    message: str  # its shape
    files: frozenset[str]


def about(name: str, message: str, paths: Collection[str], releases: Mapping[str, str]) -> list[AdvisoryRecord]:
    """The advisories of an exception with files on its stack; none if the library's release is not known."""
    shape = _shape(message)
    return [
        one.record
        for one in _by_name().get(name, ())
        if one.message == shape
        and any(path.endswith(f"/{file}") for path in paths for file in one.files)
        and _has(one.record, releases)
    ]


def _has(record: AdvisoryRecord, releases: Mapping[str, str]) -> bool:
    """Whether releases have the defect, as far as they are known; the library with which it begins has to be."""
    known = [
        is_affected(library, stretches, releases[library])
        for library, stretches in record["libraries"].items()
        if library in releases
    ]
    return next(iter(record["libraries"])) in releases and all(known)


def _shape(message: str) -> str:
    """What two messages of the same failure share: models and ranks differ in numbers."""
    return _NUMBER.sub("0", message.strip().partition("\n")[0][:_COMPARED])


def _by_name() -> dict[str, list[_CrashText]]:
    found: dict[str, list[_CrashText]] = {}
    for record in advisories().values():
        for name, message in set(_raised(record)):
            files = frozenset(
                pattern["file"]
                for stretches in record["libraries"].values()
                for one in stretches
                for pattern in one.get("pattern", ())
            )
            found.setdefault(name, []).append(_CrashText(record, _shape(message), files))
    return found


def _raised(record: AdvisoryRecord) -> Iterator[tuple[str, str]]:
    proof = record["proof"]
    for answer in proof.get("measured", {}).values():
        found = _RAISED.match(answer) if answer != proof.get("right") else None
        if found is not None:
            yield found[1].rpartition(".")[2], found[2]

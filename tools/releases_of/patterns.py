"""The range of a defect, from the sources: the releases in which the pattern of a record is found.

A pattern is a list of parts, and a release is affected if all of them are true for it: ``regex`` is found in ``file``,
``without`` is not. Every release is read, since defects come, go and come again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.releases_of.ranges import Stretch, stretches, within, words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from tools.releases_of.records import Advisory
    from tools.releases_of.trees import Trees

Pattern = tuple[tuple[tuple[str, str], ...], ...]  # the parts, each with its fields: one that can be a key


class PatternError(Exception):
    """A pattern cannot be read; the message is one line."""


class Difference(NamedTuple):
    """A record whose stored range is another than its patterns find."""

    id: str
    library: str
    stored: str
    found: str

    def __str__(self) -> str:
        return f"{self.id}: {self.library}: the store has {self.stored}, the sources {self.found}"


class Found(NamedTuple):
    """In which releases of a library each pattern is found."""

    releases: list[str]
    affected: dict[Pattern, set[str]]


def find(advisories: Iterable[Advisory], releases: Mapping[str, Sequence[str]], trees: Trees) -> dict[str, Found]:
    """All patterns of the records in all these releases; each file of a release is read once."""
    wanted: dict[str, dict[Pattern, set[str]]] = {}
    for advisory in advisories:
        for library, parts in advisory.libraries.items():
            for part in parts:
                if library in releases and part.get("pattern"):
                    wanted.setdefault(library, {})[key(part["pattern"])] = set()
    for library, affected in wanted.items():
        known = releases[library]
        for release, tree in zip(known, trees.trees(library, known), strict=True):
            text = _reader(tree)
            for pattern, those in affected.items():
                if holds(pattern, text):
                    those.add(release)
    return {library: Found(list(releases[library]), affected) for library, affected in wanted.items()}


def key(pattern: Sequence[Mapping[str, Any]]) -> Pattern:
    """A pattern of the store as a key of a dict."""
    for part in pattern:
        if not ({"file", "regex"} <= part.keys() or {"file", "without"} <= part.keys()):
            raise PatternError(f"a part of a pattern has a file, and regex or without: {dict(part)}")
    return tuple(tuple(sorted(part.items())) for part in pattern)


def holds(pattern: Pattern, text: Callable[[str], str | None]) -> bool:
    """Whether all parts of a pattern are true for a release, whose files a function reads."""
    for part in map(dict, pattern):
        content = text(part["file"])
        if "regex" in part and (content is None or not _compiled(part["regex"]).search(content)):
            return False
        if "without" in part and content is not None and _compiled(part["without"]).search(content):
            return False
    return True


def differences(advisories: Iterable[Advisory], found: Mapping[str, Found]) -> Iterator[Difference]:
    """The records in which the store and the sources disagree on a release."""
    for advisory in advisories:
        for library, parts in advisory.libraries.items():
            if library in found and any(part.get("pattern") for part in parts):
                releases = found[library].releases
                stored = within(releases, advisory.stretches(library))
                proved = _affected(parts, found[library])
                if stored != proved:
                    yield Difference(advisory.id, library, words(releases, stored), words(releases, proved))


def correct(advisory: Advisory, library: str, found: Found) -> None:
    """Write what the sources say into a record; a stretch without a pattern stays unless a pattern has it too."""
    parts = advisory.libraries[library]
    corrected: list[dict[str, Any]] = []
    for pattern, affected in found.affected.items():
        own = next((part["pattern"] for part in parts if part.get("pattern") and key(part["pattern"]) == pattern), None)
        if own is not None:
            corrected += [{**one._asdict(), "pattern": own} for one in stretches(found.releases, affected)]
    if not corrected:
        return  # a pattern that is found nowhere says nothing of the range
    known = {(one["introduced"], one["fixed"]) for one in corrected}
    corrected += [one for one in parts if not one.get("pattern") and (one["introduced"], one["fixed"]) not in known]
    order = {release: place for place, release in enumerate(found.releases)}
    corrected.sort(key=lambda one: order.get(one["introduced"], -1))
    advisory.libraries[library] = corrected


def _affected(parts: Iterable[Mapping[str, Any]], found: Found) -> set[str]:
    """What the patterns say, and the store where a stretch has none."""
    affected: set[str] = set()
    for part in parts:
        if part.get("pattern"):
            affected |= found.affected[key(part["pattern"])]
        else:
            affected |= within(found.releases, [Stretch(part["introduced"], part["fixed"])])
    return affected


def _reader(tree: Path) -> Callable[[str], str | None]:
    """Reads the files of a release, each once."""
    texts: dict[str, str | None] = {}

    def text(file: str) -> str | None:
        if file not in texts:
            path = tree / file
            texts[file] = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        return texts[file]

    return text


_expressions: dict[str, re.Pattern[str]] = {}


def _compiled(expression: str) -> re.Pattern[str]:
    if expression not in _expressions:
        try:
            _expressions[expression] = re.compile(expression, re.MULTILINE | re.DOTALL)
        except re.error as error:
            raise PatternError(f"{expression!r} is not a regular expression: {error}") from error
    return _expressions[expression]

"""The records that the sources of a library give: each exception that means something to who reads a log."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.exceptions.answers import Answer, Answered, Rows, answered, literal
from tools.exceptions.history import past
from tools.extract.releases import is_final, number
from tools.raises import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.exceptions.history import Key, Past, Worded

MODULES = Path(__file__).parent / "modules.json"
# What a run does not show, or what tells a reader nothing.
WORDS = 4  # of a message of a module that is told as a group
UNTOLD = {"internal", "never", "uncalled", "other"}
Entry = dict[str, Any]


class Read(NamedTuple):
    """What the sources of a library gave."""

    releases: list[str]
    records: list[Entry]
    without: list[Worded]  # sites of older releases that have no answer
    unused: list[dict[str, Any]]  # rows of ``reviewed.json`` that no site needs


class Beside(NamedTuple):
    """Modules that ``tools/raises`` leaves out, whose exceptions still say what kind of thing is wrong."""

    patterns: list[str]
    answer: Answer

    def has(self, module: str) -> bool:
        """Whether a module is one of them."""
        return any(fnmatch(module, pattern) for pattern in self.patterns)


def read(library: str, releases: Sequence[str], folder: Path) -> Read:
    """The records of a library, from its unpacked releases ``<library>-<release>``."""
    lists = json.loads(MODULES.read_text(encoding="utf-8"))
    groups = [
        Beside(group["modules"], Answer((), group["reason"], group["because"] if group["reason"] else None))
        for group in lists["beside"]
    ]
    since = number(lists["since"][library])
    trees = [(release, folder / f"{library}-{release}") for release in releases if number(release) >= since]
    patterns = [*table.modules().of(library), *lists["older"], *(one for group in groups for one in group.patterns)]
    found = past(library, trees, patterns)
    beside = {site for sites in found.sites for site in sites if any(group.has(site.key.module) for group in groups)}
    rows = Rows(library)
    listed, without = answered(found.without(beside), rows)
    known = [rows.completed(one) for one in [*listed, *_of_groups(beside, groups, rows)]]
    return Read(found.releases, list(_records(known, found)), without, rows.unused)


def unpacked(library: str, folder: Path) -> list[str]:
    """The final releases of a library that lie in a folder, oldest first."""
    names = (path.name.removeprefix(f"{library}-") for path in folder.glob(f"{library}-*") if path.is_dir())
    return sorted((name for name in names if is_final(name)), key=number)


def _of_groups(sites: set[Worded], groups: Sequence[Beside], rows: Rows) -> Iterator[Answered]:
    for site in sites:
        group = next(group for group in groups if group.has(site.key.module))
        answers = rows.answers(site, instead=True) or [group.answer]
        if len(literal(site.key.message).split()) >= WORDS:
            yield from (Answered(site, answer) for answer in answers if answer.rules or answer.reason)


def _records(known: Sequence[Answered], past: Past) -> Iterator[Entry]:
    """A record for each exception and each answer to it, in the order of the sources."""
    spans = past.spans()
    answers: dict[Key, dict[Answer, None]] = {}
    for site, answer in known:
        answers.setdefault(site.key, {})[answer] = None
    for key in sorted(answers, key=str):
        since, until = spans[key]
        for answer in _merged(answers[key]):
            yield record(key, answer) | dated(since, until) | {"proof": "source"}


def _merged(answers: dict[Answer, None]) -> Iterator[Answer]:
    """The answers that tell something: what rules alone report is one, and of the others each with a reason to tell."""
    if codes := tuple(dict.fromkeys(code for answer in answers if answer.reason is None for code in answer.rules)):
        yield Answer(codes)
    for answer in answers:
        if answer.reason is not None and (answer.rules or answer.reason not in UNTOLD):
            yield answer


def record(key: Key, answer: Answer) -> Entry:
    """A record as it is stored: what is not known is left out."""
    fields: Entry = {"module": key.module, "function": key.function, "raises": key.raises}
    if key.message is not None:
        fields["message"] = list(key.message)
    if answer.rules:
        fields["rules"] = list(answer.rules)
    if answer.reason is not None:
        fields["reason"] = answer.reason
    if answer.because is not None:
        fields["because"] = answer.because
    return fields


def dated(since: str | None, until: str | None) -> Entry:
    """The releases of a record."""
    return {name: value for name, value in (("since", since), ("until", until)) if value is not None}

"""What an exception means: a rule that reports it before the run, or the reason why no rule can.

For the releases of ``tools/raises`` its tables have the answers. A site that only an older release has gets the answer
of its successor: the same condition in the same function, the same words elsewhere, or nearly the same words in a
function of the same name. What has no successor is in ``reviewed.json`` beside this file, by hand, and so is what has a
wrong one (``instead``).
"""

from __future__ import annotations

import json
from difflib import SequenceMatcher
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.raises import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tools.exceptions.history import Past, Worded
    from tools.exceptions.wording import Pieces

REVIEWED = Path(__file__).parent / "reviewed.json"
REASONS = {
    **table.REASONS,
    "config": "depends on the config, and no rule reports it: in the releases that have it, or at all",
}
_WORDS, _LETTERS = 3, 20  # of a text that is the same wherever it stands
_SIMILAR = 0.75  # of the words, in functions of one name
_SAME = 0.9  # of the words, in any function


class Answer(NamedTuple):
    """What a row says."""

    rules: tuple[str, ...] = ()
    reason: str | None = None
    because: str | None = None


class Answered(NamedTuple):
    """A site with its answer."""

    site: Worded
    answer: Answer


class Rows:
    """The rows of ``reviewed.json`` for one library.

    A row names sites by patterns, and says ``rules``, or ``reason`` and ``because``; or, for sites that have their
    answer, rules that report them where more is known than the config (``also``, ``first``).
    """

    def __init__(self, library: str) -> None:
        self.rows: list[dict[str, Any]] = json.loads(REVIEWED.read_text(encoding="utf-8"))[library]
        self.used: set[int] = set()

    def answers(self, site: Worded, *, instead: bool) -> list[Answer]:
        """The answer of the first row whose patterns a site fits, of those that replace a successor's or the others."""
        for row in self._of(site):
            if not {"also", "first"} & row.keys() and row.get("instead", False) == instead:
                return [Answer(tuple(row.get("rules", ())), row.get("reason"), row.get("because"))]
        return []

    def completed(self, answered: Answered) -> Answered:
        """An answer with the rules that report the site where more is known than the config."""
        rows = list(self._of(answered.site))
        first, more = ([code for row in rows for code in row.get(field, ())] for field in ("first", "also"))
        rules = tuple(dict.fromkeys([*first, *answered.answer.rules, *more]))
        return Answered(answered.site, answered.answer._replace(rules=rules))

    def _of(self, site: Worded) -> Iterator[dict[str, Any]]:
        """The rows whose patterns a site fits."""
        key = site.key
        values = {"module": key.module, "function": key.function, "words": literal(key.message)}
        for place, row in enumerate(self.rows):
            if all(fnmatchcase(value, row[field]) for field, value in values.items()):
                self.used.add(place)
                yield row

    @property
    def unused(self) -> list[dict[str, Any]]:
        """The rows that no site needs."""
        return [row for place, row in enumerate(self.rows) if place not in self.used]


def answered(past: Past, rows: Rows) -> tuple[list[Answered], list[Worded]]:
    """The sites of all releases with their answers, and those that have none yet."""
    known = list(_of_table(past.library, past.newest))
    seen = {one.site for one in known}
    without = []
    for sites in reversed(past.sites):
        found = []
        for site in sorted(sites - seen, key=_order):
            answers = rows.answers(site, instead=True) or successors(site, known) or rows.answers(site, instead=False)
            found += [Answered(site, answer) for answer in answers]
            if not answers:
                without.append(site)
        seen |= sites
        known += found
    return known, without


def _order(site: Worded) -> tuple[str, ...]:
    return (*map(str, site.key), *site.when, site.source)


def _of_table(library: str, newest: Iterable[Worded]) -> Iterator[Answered]:
    rows = {(row.module, row.site[1], row.site[2], row.site[4]): row for row in table.rows(library)}
    for site in sorted(newest, key=_order):
        row = rows.get((site.key.module, site.key.function, site.when, site.source))
        if row is not None:
            reason, because = ("config", row.open) if row.open else (row.reason, row.because)
            yield Answered(site, Answer(row.rules, reason, because))


def successors(site: Worded, known: Sequence[Answered]) -> list[Answer]:
    """The answers of the sites that a site became; empty where there are none."""
    nearby = [
        one
        for one in known
        if one.site.key.module == site.key.module and _last(one.site.key.function) == _last(site.key.function)
    ]
    same = [one for one in nearby if site.when and one.site.when[-1:] == site.when[-1:]]
    text = literal(site.key.message)
    if not same and len(text.split()) >= _WORDS and len(text) >= _LETTERS:
        same = [one for one in known if literal(one.site.key.message) == text]
        same = same or _most_similar(text, nearby, _SIMILAR) or _most_similar(text, known, _SAME)
    return list(dict.fromkeys(one.answer for one in same))


def _most_similar(text: str, known: Sequence[Answered], least: float) -> list[Answered]:
    best = least
    found: list[Answered] = []
    matcher = SequenceMatcher(b=text, autojunk=False)
    for one in known:
        matcher.set_seq1(literal(one.site.key.message))
        if matcher.real_quick_ratio() >= best and matcher.quick_ratio() >= best and (ratio := matcher.ratio()) >= best:
            found = [one] if ratio > best else [*found, one]
            best = ratio
    return found


def literal(message: Pieces | None) -> str:
    """The words that an exception always has."""
    return " ".join("".join(piece or " " for piece in message or ()).split())


def _last(function: str) -> str:
    return function.rpartition(".")[2]

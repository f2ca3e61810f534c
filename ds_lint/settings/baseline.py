"""The findings that an old repository starts with: each by its rule, key and fingerprint, for each file.

``ds-lint check --write-baseline`` writes them, and from then on they are suppressed, and others are not. Paths are
relative to the folder of the baseline and have slashes on every system. Nothing in it is about lines, so that it holds
while the lines around a finding change. The first version had the number of findings of each rule; it is still read,
and what is written down again has the new form.
"""

from __future__ import annotations

import json
import os

from ds_lint.project.globs import relative
from ds_lint.record import Record, field
from ds_lint.settings.record import SettingsError
from ds_lint.source import replacement
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport

    Identity = tuple[str, str | None, str]  # rule, key and fingerprint

DEFAULT_NAME = "ds-lint-baseline.json"
VERSION = 2
COUNTS_ONLY = 1  # the version that has numbers instead of findings


class KnownFindings(Record):
    """The findings of one file that are known: how often each, and the numbers of an older baseline by rule."""

    findings: dict[Identity, int] = field(factory=dict)
    counts: dict[str, int] = field(factory=dict)

    def add(self, identity: Identity) -> None:
        """Know a finding from now on, or one more like it."""
        self.findings[identity] = self.findings.get(identity, 0) + 1

    def take(self, identity: Identity) -> bool:
        """Whether a finding is known; each is known once for every time that it was written down."""
        if self.findings.get(identity):
            self.findings[identity] -= 1
            return True
        rule = identity[0]
        if self.counts.get(rule):
            self.counts[rule] -= 1
            return True
        return False

    def forget(self, rule: str) -> None:
        """Know nothing of a rule any more."""
        self.counts.pop(rule, None)
        self.findings = {identity: number for identity, number in self.findings.items() if identity[0] != rule}

    def number(self, rules: Iterable[str]) -> int:
        """How many findings of these rules are left."""
        names = set(rules)
        found = sum(number for (rule, _, _), number in self.findings.items() if rule in names)
        return found + sum(number for rule, number in self.counts.items() if rule in names)

    def as_list(self) -> list[dict[str, object]]:
        """The findings as they are written down."""
        entries: list[dict[str, object]] = [
            {"rule": rule, "key": key, "fingerprint": fingerprint}
            for rule, key, fingerprint in sorted(self.findings, key=lambda one: (one[0], one[1] or "", one[2]))
            for _ in range(self.findings[rule, key, fingerprint])
        ]
        return [*entries, *({"rule": rule, "count": self.counts[rule]} for rule in sorted(self.counts))]


class Baseline(Record):
    """What one baseline suppresses; ``left`` are the findings that were not met yet, by file."""

    path: str
    left: dict[str, KnownFindings]

    def __post_init__(self) -> None:
        self.directory = os.path.dirname(self.path)

    @property
    def has_counts(self) -> bool:
        """Whether it has numbers for some file, which suppress new findings of a rule in place of old ones."""
        return any(known.counts for known in self.left.values())

    def suppress(self, report: FileReport) -> None:
        """Take from a report the findings that the baseline has; of a mere number, the first in the text first."""
        known = self.left.get(relative(report.path, self.directory)) or KnownFindings()
        kept = [finding for finding in report.findings if not known.take(_identity(finding, report))]
        report.in_baseline = len(report.findings) - len(kept)
        report.findings = kept

    def outdated(self, path: str, rules: Iterable[str]) -> int:
        """How many findings of these rules the baseline has for a file, and the file has no more."""
        known = self.left.get(relative(path, self.directory))
        return known.number(rules) if known is not None else 0


def load(path: str) -> Baseline:
    """The baseline in a file. Raises OSError, and SettingsError where the file is something else."""
    return Baseline(path, _known(path))


def write(path: str, linted: list[tuple[FileReport, list[str]]]) -> None:
    """Write down what there is in these files, each with the names of the rules that it was checked by.

    What was known by other rules, and of other files as long as they are there, stays.
    """
    directory = os.path.dirname(path)
    before = _known(path) if os.path.exists(path) else {}
    known = {name: before[name] for name in before if os.path.exists(os.path.join(directory, name))}
    for report, rules in linted:
        of_file = known.setdefault(relative(report.path, directory), KnownFindings())
        for rule in rules:
            of_file.forget(rule)
    for report, _ in linted:
        for finding in report.findings:
            known[relative(report.path, directory)].add(_identity(finding, report))
    files = {name: entries for name, of_file in known.items() if (entries := of_file.as_list())}
    text = json.dumps({"files": files, "version": VERSION}, indent=2, sort_keys=True) + "\n"
    replacement.write(path, _laid_out_as_before(text, path).encode())


def _laid_out_as_before(text: str, path: str) -> str:
    """A text with the byte order mark and the line ends of the file that it replaces, as a checkout on Windows has."""
    try:
        with open(path, "rb") as file:
            before = file.read()
    except FileNotFoundError:
        return text
    mark = "\ufeff" if before.startswith(b"\xef\xbb\xbf") else ""
    return mark + (text.replace("\n", "\r\n") if b"\r\n" in before else text)


def _identity(finding: Finding, report: FileReport) -> Identity:
    from ds_lint.diagnostics.fingerprint import fingerprint  # hashes cost the start of who finds nothing

    return finding.name, finding.key, fingerprint(finding, report.document)


def _known(path: str) -> dict[str, KnownFindings]:
    """The findings in a file; one that is not a baseline is never taken for one, nor overwritten."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise SettingsError(f"{shown(path)}: {error.strerror}; create it with ds-lint check --write-baseline") from None
    try:
        content = json.loads(data)
        readers: dict[int, Callable[[Any], KnownFindings]] = {COUNTS_ONLY: _of_counts, VERSION: _of_entries}
        known_of = readers[content["version"]]
        return {name: known_of(of_file) for name, of_file in content["files"].items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise SettingsError(f"{shown(path)}: not a baseline; create one with ds-lint check --write-baseline") from None


def _of_counts(of_file: dict[str, int]) -> KnownFindings:
    """What the first version has of a file: a number for each rule."""
    known = KnownFindings()
    known.counts = {rule: _count(number) for rule, number in of_file.items()}
    return known


def _of_entries(of_file: list[dict[str, object]]) -> KnownFindings:
    known = KnownFindings()
    for entry in of_file:
        rule, key = entry["rule"], entry.get("key")
        if not isinstance(rule, str) or not isinstance(key, (str, type(None))):
            raise TypeError
        if "count" in entry:
            known.counts[rule] = _count(entry["count"])
        else:
            known.add((rule, key, str(entry["fingerprint"])))
    return known


def _count(number: object) -> int:
    if type(number) is not int or number <= 0:
        raise TypeError
    return number

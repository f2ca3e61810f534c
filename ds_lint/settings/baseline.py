"""The findings that an old repository starts with: how many of each rule there are in each file.

``ds-lint check --write-baseline`` writes them down, and from then on so many are held back. Paths are relative to the
folder of the baseline and have slashes on every system. A number says nothing about lines, so that a baseline holds
while the lines around a finding change.
"""

from __future__ import annotations

import json
import os

from ds_lint.settings.globs import relative
from ds_lint.settings.record import SettingsError
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.diagnostics.report import FileReport

    Counts = dict[str, dict[str, int]]  # by file and name of a rule

DEFAULT_NAME = "ds-lint-baseline.json"
VERSION = 1


class Baseline:
    """What one baseline holds back; ``left`` are the findings that were not met yet."""

    __slots__ = ("directory", "left", "path")

    def __init__(self, path: str, counts: Counts) -> None:
        self.path = path
        self.directory = os.path.dirname(path)
        self.left = counts

    def hold_back(self, report: FileReport) -> None:
        """Take from a report as many findings of each rule as the baseline has, the first in the text first."""
        left = self.left.get(relative(report.path, self.directory), {})
        kept = []
        for finding in report.findings:
            if left.get(finding.name):
                left[finding.name] -= 1
            else:
                kept.append(finding)
        report.in_baseline = len(report.findings) - len(kept)
        report.findings = kept

    def gone(self, path: str, rules: Iterable[str]) -> int:
        """How many findings of these rules the baseline has for a file, and the file has no more."""
        left = self.left.get(relative(path, self.directory), {})
        return sum(left.get(rule, 0) for rule in rules)


def load(path: str) -> Baseline:
    """The baseline in a file. Raises OSError, and SettingsError where the file is something else."""
    return Baseline(path, _counts(path))


def write(path: str, linted: list[tuple[FileReport, list[str]]]) -> None:
    """Write down what there is in these files, each with the names of the rules that it was linted with.

    What was known by other rules, and of other files as long as they are there, stays.
    """
    directory = os.path.dirname(path)
    known = _counts(path) if os.path.exists(path) else {}
    counts = {name: known[name] for name in known if os.path.exists(os.path.join(directory, name))}
    for report, rules in linted:
        of_file = counts.setdefault(relative(report.path, directory), {})
        for rule in rules:
            of_file.pop(rule, None)
    for report, _ in linted:
        of_file = counts[relative(report.path, directory)]
        for finding in report.findings:
            of_file[finding.name] = of_file.get(finding.name, 0) + 1
    counts = {name: of_file for name, of_file in counts.items() if of_file}
    text = json.dumps({"files": counts, "version": VERSION}, indent=2, sort_keys=True) + "\n"
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _counts(path: str) -> Counts:
    """The numbers in a file; one that is no baseline is never taken for one, nor overwritten."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError as error:
        raise SettingsError(f"{shown(path)}: {error.strerror}; ds-lint check --write-baseline writes one") from None
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and content.get("version") == VERSION and _is_counts(content.get("files")):
        counts: Counts = content["files"]
        return counts
    raise SettingsError(f"{shown(path)}: this is no baseline; ds-lint check --write-baseline writes one")


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(rules, dict) and all(type(number) is int and number > 0 for number in rules.values())
        for rules in value.values()
    )

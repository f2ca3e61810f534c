"""The report for a range of releases: which findings hold from which release to which.

No release is skipped and few are checked: the trace of a report tells for which older releases every answer would have
been the same, so that only releases are checked between which something changes for this config.
"""

from __future__ import annotations

from ds_lint.knowledge import stacks, tables
from ds_lint.record import Record
from ds_lint.targets.pin import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.knowledge.keys import Target
    from ds_lint.knowledge.trace import Trace
    from ds_lint.linter.choice import Choice
    from ds_lint.targets.pin import Library

    # For a target, with an older one to compare it with, and the advisories that may be reported if not all.
    Lint = Callable[..., tuple[FileReport, Trace]]
    Problem = tuple[object, ...]
    Identity = tuple[object, ...]


class _Held(Record):
    """A finding, and by library the releases for which it holds."""

    finding: Finding

    def __post_init__(self) -> None:
        self.releases: dict[str, set[str]] = {library: set() for library in LIBRARIES}


def linted(choice: Choice, lint_at: Lint, *, is_upgrade: bool = False) -> FileReport:
    """The report for the newest releases, with the findings of older ones that are possible too.

    One library is varied at a time, with the newest of the others. A finding that the newest releases do not have is no
    more than information: an environment that is made today is without it.
    """
    report, trace = lint_at(choice.newest, choice.oldest)
    held: dict[Identity, _Held] = {}
    # What the newest releases do not reach is reported neither of the range nor as new.
    advisories = {finding.advisory for finding in report.findings if finding.advisory}

    def lint_older(target: Target) -> tuple[FileReport, Trace]:
        return lint_at(target, None, advisories)

    for library in LIBRARIES:
        for releases, findings in _along(library, choice, report.findings, trace, lint_older):
            for finding in findings:
                held.setdefault(_identity(finding), _Held(finding)).releases[library].update(releases)
    newest = {_identity(finding) for finding in report.findings}
    for identity, one in list(held.items()):
        if compares(one.finding):
            continue
        one.finding.releases = {
            library: _stretches(one.releases[library], choice.releases[library])
            for library in LIBRARIES
            if one.releases[library] and len(one.releases[library]) < len(choice.releases[library])
        } or None
        if identity not in newest:
            one.finding.severity = "info"
        if one.finding.advisory and one.finding.releases and not is_upgrade:
            del held[identity]  # some releases of the range are without the defect, or do not reach it
    report.findings = sorted(
        (one.finding for one in held.values()),
        key=lambda finding: (finding.span.start, finding.span.end, finding.code),
    )
    return report


def _along(
    library: Library, choice: Choice, findings: list[Finding], trace: Trace, lint_at: Lint
) -> Iterator[tuple[list[str], list[Finding]]]:
    """The possible releases of one library, newest first, in stretches with the same findings.

    ``findings`` and ``trace`` are those of the newest.
    """
    target, rest = choice.newest, list(choice.releases[library])
    while len(rest) > len(alike := _alike(library, rest, trace)):
        yield alike, findings
        rest = rest[: -len(alike)]
        setattr(target, library, rest[-1])
        report, trace = lint_at(target)
        findings = report.findings
    yield rest, findings


def _alike(library: Library, rest: list[str], trace: Trace) -> list[str]:
    """The newest of these releases, and those before it for which nothing that was looked up is different."""
    if len(rest) == 1:
        return rest
    if library == "deepspeed":
        same = tables.load("deepspeed")["releases"][trace.first :]
    else:
        records = trace.records(library)
        if not records:
            return rest
        same = stacks.alike(library, rest[-1], records)
    return [release for release in rest if release in same]


def compares(finding: Finding) -> bool:
    """Whether a finding is about two releases, and so holds for the range and not for a part of it."""
    return finding.kind == "comparison"


def _problem(finding: Finding) -> Problem:
    place = (finding.related[0].path, finding.related[0].span.start) if finding.is_elsewhere else None
    return finding.code, finding.advisory, finding.key, finding.span.start, finding.effect, place


def _identity(finding: Finding) -> Identity:
    """A problem with its way out: where releases take different values, the help for one is wrong for another."""
    return (*_problem(finding), finding.help)


def _stretches(releases: set[str], possible: list[str]) -> list[tuple[str, str]]:
    """First and last release of every stretch without a gap."""
    stretches: list[tuple[str, str]] = []
    for before, release in zip([None, *possible], possible, strict=False):
        if release not in releases:
            continue
        if before in releases and stretches:
            stretches[-1] = (stretches[-1][0], release)
        else:
            stretches.append((release, release))
    return stretches


def upgraded(choice: Choice, lint_at: Lint) -> FileReport:
    """The report on what changes from the oldest releases to the newest: only what is new with the newest."""
    before = {_problem(finding) for finding in lint_at(choice.oldest)[0].findings}
    report = linted(choice, lint_at, is_upgrade=True)
    report.findings = [
        finding
        for finding in report.findings
        if compares(finding) or (_is_new(finding, choice) and _problem(finding) not in before)
    ]
    return report


def _is_new(finding: Finding, choice: Choice) -> bool:
    """Whether a finding holds for the newest release of a library, and not for the oldest."""
    return any(
        stretches[-1][1] == choice.releases[library][-1] and stretches[0][0] != choice.releases[library][0]
        for library, stretches in (finding.releases or {}).items()
    )

"""The fixes of all configs of one file: applied together, so that the file is read once for all and not once for each.

What is not done together, because a fix is refused or needs another one behind it, each config does alone; for those
the file is read again and again, up to a number of characters.
"""

from __future__ import annotations

from bisect import insort

from ds_lint.fixes.application import (
    ALL,
    MOST_ATTEMPTS,
    MOST_FINDINGS,
    SAFE,
    allowing,
    edited,
    edits_of,
    fix,
    loses_readers,
    problem,
    problems,
    touches,
    without_overlap,
)
from ds_lint.fixes.preservation import keeps_the_rest
from ds_lint.source import documents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ds_lint.diagnostics.finding import Finding, Safety
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.fixes.application import Lint
    from ds_lint.source.document import Document

    Chosen = dict[int, list[Finding]]  # by the index of the config

_MOST_ROUNDS = 10
_MOST_READ = 3_000_000  # characters, for the configs that are fixed alone
_FEW_ATTEMPTS = 20  # for a number that may never be looked at,
_FEW_FINDINGS = 4_000  # as many as are found in a second,
_MOST_CHARACTERS = 100_000  # and only of a text that is linted in no time,
_MOST_FINDINGS = 2_000  # which one with more than these is not


def fix_all(
    configs: Sequence[Document],
    lint: Lint,
    safeties: Collection[str] = SAFE,
    *,
    codes: Collection[str] | None = None,
    most_attempts: int = MOST_ATTEMPTS,
    most_findings: int = MOST_FINDINGS,
) -> list[FileReport]:
    """The reports on what the fixes make of the configs of one file, as ``fix`` has them.

    That on the last config is on the text that is left at the end.
    """
    if len(configs) == 1:
        return [fix(configs[0], lint, safeties, codes=codes, most_attempts=most_attempts, most_findings=most_findings)]
    reports, done = _together(configs, lint, safeties, codes)
    left = _MOST_READ
    for index in range(len(reports)):
        document = reports[index].document
        attempts = min(most_attempts, left // max(len(document.file_text), 1))
        after = fix(document, lint, safeties, codes=codes, most_attempts=attempts, most_findings=most_findings)
        left -= len(document.file_text) * (len(after.unfixed) + len(after.fixed or ()))
        before, reports[index] = reports[index], after
        if after.document.text != document.text and not _take_over(reports, index, lint):
            reports[index] = before  # the file would no longer have all its configs
    for report, fixed in zip(reports, done, strict=True):
        report.fixed = [*fixed, *(report.fixed or ())]
    return reports


def _take_over(reports: list[FileReport], index: int, lint: Lint) -> bool:
    """Put the configs behind one into the text that its fixes have left; whether the file still has them all."""
    first = reports[index].document
    now = documents.all_again(first, first.text)
    if len(now) != len(reports):
        return False
    for place in range(index + 1, len(reports)):
        reports[place] = lint(now[place])
    return True


def _together(
    configs: Sequence[Document], lint: Lint, safeties: Collection[str], codes: Collection[str] | None
) -> tuple[list[FileReport], list[list[Finding]]]:
    """The reports after the fixes that can be applied together, and what they have fixed of each config."""
    is_allowed = allowing(safeties, codes)
    reports = [lint(document) for document in configs]
    done: list[list[Finding]] = [[] for _ in configs]
    alone: set[int] = {index for index, document in enumerate(configs) if not document.is_utf8}
    for _ in range(_MOST_ROUNDS):
        chosen: Chosen = {}
        taken: list[tuple[int, int]] = []
        for index, report in enumerate(reports):
            candidates = [finding for finding in report.findings if is_allowed(finding, report)]
            if index not in alone and candidates:
                chosen[index] = _beside(taken, without_overlap(candidates))
        chosen = {index: findings for index, findings in chosen.items() if findings}
        if not chosen:
            break
        after, failed = _applied(reports, chosen, lint)
        if failed:
            alone |= failed
        else:
            reports = after
            for index, findings in chosen.items():
                done[index] += findings
    return reports, done


def _beside(taken: list[tuple[int, int]], findings: list[Finding]) -> list[Finding]:
    """Those whose edits touch no other one, of this config or of another that has the same text."""
    kept = []
    for finding in findings:
        spans = [(edit.span.start, edit.span.end) for edit in edits_of(finding)]
        if not any(touches(span, taken) for span in spans):
            kept.append(finding)
            for span in spans:
                insort(taken, span)
    return kept


def _applied(reports: list[FileReport], chosen: Chosen, lint: Lint) -> tuple[list[FileReport], set[int]]:
    """The reports with these fixes, and the configs for which they do not do what they promise."""
    first = reports[0].document
    edits = [edit for findings in chosen.values() for finding in findings for edit in edits_of(finding)]
    now = documents.all_again(first, edited(first.text, edits))
    if len(now) != len(reports) or not keeps_the_rest(first, now[0], edits):
        return reports, set(chosen)
    after, failed = [], set()
    for index, (before, document) in enumerate(zip(reports, now, strict=True)):
        report = lint(document)
        old, new = problems(before.findings), problems(report.findings)
        left = problems(chosen.get(index, ())) - (old - new)
        if new - old or left or loses_readers(before.document, document):
            failed.add(index)
        after.append(report)
    if failed and not failed & set(chosen):
        return reports, set(chosen)  # they change a config in which nothing is fixed
    return after, failed


def try_all(reports: Sequence[FileReport], lint: Lint, *, codes: Collection[str] | None = None) -> None:
    """Find out which fixes of a file's reports would be applied with which safeties, and why the others would not."""
    number = sum(len(report.findings) for report in reports)
    if len(reports[0].document.text) > _MOST_CHARACTERS or number > _MOST_FINDINGS:
        for report in reports:
            report.may_be_unfixable = any(finding.fix for finding in report.findings)
        return
    waiting = [[finding for finding in report.findings if finding.fix is not None] for report in reports]
    for safeties in (SAFE, ALL):
        if not any(waiting):
            return
        configs = [report.document for report in reports]
        fixed = fix_all(configs, lint, safeties, codes=codes, most_attempts=_FEW_ATTEMPTS, most_findings=_FEW_FINDINGS)
        waiting = [
            _tried(report, findings, after, safeties[-1])
            for report, findings, after in zip(reports, waiting, fixed, strict=True)
        ]


def _tried(report: FileReport, tried: list[Finding], after: FileReport, safety: Safety) -> list[Finding]:
    """Note what became of the fixes of a report; those that were not applied."""
    done = problems(after.fixed or ())
    reasons = {problem(unfixed.finding): unfixed.reason for unfixed in after.unfixed}
    waiting = []
    for finding in tried:
        assert finding.fix is not None  # noqa: S101 - those without are not tried
        if done[problem(finding)]:
            done[problem(finding)] -= 1
            finding.fix.applied_with = safety
        else:
            waiting.append(finding)
            finding.fix.applied_with = finding.fix.safety if after.may_be_unfixable else None
            finding.fix.refusal = reasons.get(problem(finding), finding.fix.refusal)
    report.may_be_unfixable |= after.may_be_unfixable
    return waiting

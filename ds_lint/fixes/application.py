"""Applying the fixes of findings to a text, and keeping only those that do what they promise.

A fix is kept if its finding disappears, no finding is new, and whoever could read the text still can. Written
keys are fixed before any are added, because a misspelled key may be the missing one; safe fixes go first, because an
unsafe one may guess what a safe one knows. In a text that no library can read, only its syntax is fixed, because its
structure is a guess.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter

from ds_lint.diagnostics.finding import Unfixed
from ds_lint.fixes.preservation import keeps_the_rest
from ds_lint.record import Record, field
from ds_lint.source import documents
from ds_lint.source.dialect import hjson_refusal, is_readable, json_refuses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ds_lint.diagnostics.finding import Edit, Finding, Safety
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.source.document import Document

    Lint = Callable[[Document], FileReport]  # with all rules, so that no fix causes a finding of a disabled rule

SAFE: tuple[Safety, ...] = ("safe",)
ALL: tuple[Safety, ...] = ("safe", "unsafe")
MOST_ATTEMPTS = 200  # on one file: most need two, and no file is worth hours
MOST_FINDINGS = 40_000  # of all attempts: each lints the text again, which takes as long as there are findings in it
_CHARACTERS = 100  # that take as long to lint as a finding
_MOST_CONSEQUENCES = 4  # what comes to light behind a fix, and behind that


def fix(
    document: Document,
    lint: Lint,
    safeties: Collection[str] = SAFE,
    *,
    codes: Collection[str] | None = None,
    most_attempts: int = MOST_ATTEMPTS,
    most_findings: int = MOST_FINDINGS,
) -> FileReport:
    """The report on what the fixes make of a document: the new text, what is left, and in ``fixed`` what is not.

    ``safeties`` are the fixes that may be applied: ``SAFE``, ``ALL`` or none. ``codes`` are the rules whose findings
    are to be fixed and reported, None for all of them. ``most_findings`` bounds those of all attempts. A finding that
    is left has a fix only if that was not tried; ``unfixed`` has those of which it was.
    """
    is_allowed = allowing(safeties, codes)
    report = lint(document)
    done: list[Finding] = []
    refused: dict[Finding, Unfixed] = {}
    attempts = min(most_attempts, _affordable(report, most_findings)) if document.is_utf8 else 0
    while (
        candidates := [one for one in report.findings if is_allowed(one, report) and one not in refused]
    ) and attempts:
        attempts -= 1
        chosen = without_overlap(candidates)
        better = _fixed(report, chosen, lint, is_allowed)
        while isinstance(better, _Refusal) and len(chosen) > 1 and attempts:
            attempts -= 1
            chosen = chosen[: len(chosen) // 2]  # so that one that is refused is found in few steps
            better = _fixed(report, chosen, lint, is_allowed)
        if isinstance(better, _Refusal) and len(chosen) > 1:
            break
        if isinstance(better, _Refusal):
            refused[chosen[0]] = Unfixed(chosen[0], better.reason, better.brings)
        else:
            report, refused = better, {}
            done += chosen
    for finding in refused:
        finding.fix = None
    report.findings = [finding for finding in report.findings if codes is None or finding.code in codes]
    report.fixed = done
    report.unfixed = list(refused.values())
    report.may_be_unfixable = bool(candidates) and document.is_utf8
    return report


def _affordable(report: FileReport, most_findings: int) -> int:
    """How many attempts on a text may be made; one in any case."""
    return max(1, most_findings // (1 + len(report.findings) + len(report.document.text) // _CHARACTERS))


def fix_one(
    report: FileReport, finding: Finding, lint: Lint, *, codes: Collection[str] | None = None
) -> FileReport | None:
    """The report on the text with the fix of one finding in it, and what comes to light behind that fixed too.

    ``report`` is by the same rules as ``lint``. None where the fix does not do what it promises.
    """
    is_allowed = allowing(ALL if finding.fix is not None and finding.fix.safety not in SAFE else SAFE, codes)
    if not is_allowed(finding, report) or not report.document.is_utf8:
        return None
    after = _fixed(report, [finding], lint, is_allowed)
    return None if isinstance(after, _Refusal) else after


def allowing(safeties: Collection[str], codes: Collection[str] | None) -> Callable[[Finding, FileReport], bool]:
    """Whether a fix may be applied: of these rules, and in a text that no library can read only one of its syntax."""
    last: list[tuple[Document, bool]] = []  # the last text, and whether it is readable: all findings ask for it

    def is_allowed(finding: Finding, report: FileReport) -> bool:
        if (
            finding.fix is None
            or finding.fix.safety not in safeties
            or (codes is not None and finding.code not in codes)
        ):
            return False
        if finding.kind == "syntax":
            return True
        if not last or last[0][0] is not report.document:
            last[:] = [(report.document, is_readable(report.document))]
        return last[0][1]

    return is_allowed


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with these edits, which do not overlap."""
    pieces, end = [], 0
    for edit in sorted(edits, key=lambda edit: edit.span.start):
        pieces += [text[end : edit.span.start], edit.text]
        end = edit.span.end
    return "".join([*pieces, text[end:]])


def without_overlap(candidates: list[Finding]) -> list[Finding]:
    """The fixes of the first turn, in the order of the text, without those that touch one before them."""
    first = min(_turn(finding) for finding in candidates)
    chosen: list[Finding] = []
    taken: list[tuple[int, int]] = []
    for finding in candidates:
        spans = [(edit.span.start, edit.span.end) for edit in edits_of(finding)]
        if _turn(finding) == first and not any(touches(span, taken) for span in spans):
            chosen.append(finding)
            for span in spans:
                insort(taken, span)
    return chosen


def touches(span: tuple[int, int], taken: list[tuple[int, int]]) -> bool:
    """Whether a span overlaps one of others that are sorted and do not overlap, or begins where one ends."""
    start, end = span
    place = bisect_left(taken, span)
    return (place > 0 and taken[place - 1][1] >= start) or (place < len(taken) and taken[place][0] <= end)


def _turn(finding: Finding) -> tuple[bool, bool]:
    """When a fix has its turn: safe ones first, and of those the ones that change what is written."""
    only_adds = all(edit.span.start == edit.span.end for edit in edits_of(finding))
    return finding.fix is not None and finding.fix.safety != "safe", only_adds


def edits_of(finding: Finding) -> list[Edit]:
    """The edits of the fix of a finding; none if it has no fix."""
    return finding.fix.edits if finding.fix else []


def _fixed(
    before: FileReport, chosen: list[Finding], lint: Lint, is_allowed: Callable[[Finding, FileReport], bool]
) -> FileReport | _Refusal:
    """The report after these fixes, or why they do not do what they promise.

    A key under its right name may be deprecated, a section under its right name hold another typo: what comes to light
    has to be fixed with it.
    """
    old = problems(before.findings)
    after = _applied(before, chosen, lint)
    refusal = _Refusal("it would cause other findings without end")
    for _ in range(_MOST_CONSEQUENCES):
        if after is None:
            return _Refusal("the text would become unreadable")
        new = problems(after.findings)
        gained = new - old
        if not gained:
            return _Refusal("the finding would remain") if problems(chosen) - (old - new) else after
        refusal = _Refusal(f"it would cause {_listed(gained)}", list(gained))
        consequences = [one for one in after.findings if problem(one) in gained and is_allowed(one, after)]
        if not consequences:
            return refusal
        after = _applied(after, without_overlap(consequences), lint)
    return refusal


def _listed(problems: Iterable[tuple[str, str | None]]) -> str:
    """The codes of problems: ``DS101, DS703 and DS704``."""
    *first, last = sorted({code for code, _ in problems})
    return f"{', '.join(first)} and {last}" if first else last


def _applied(report: FileReport, chosen: list[Finding], lint: Lint) -> FileReport | None:
    """The report on the text with these fixes; None if a reader that could read the text no longer can."""
    before = report.document
    edits = [edit for finding in chosen for edit in edits_of(finding)]
    after = documents.again(before, edited(before.text, edits))
    if after is None or not keeps_the_rest(before, after, edits) or loses_readers(before, after):
        return None
    return lint(after)


def loses_readers(before: Document, after: Document) -> bool:
    """Whether a reader that could read a text cannot read what it has become."""
    if json_refuses(after) and not json_refuses(before):
        return True
    return hjson_refusal(after) is not None and hjson_refusal(before) is None


class _Refusal(Record):
    """Why fixes are not applied, and the problems that they would bring."""

    reason: str
    brings: list[tuple[str, str | None]] = field(factory=list)


def problems(findings: Iterable[Finding]) -> Counter[tuple[str, str | None]]:
    """How often each problem is there."""
    return Counter(problem(finding) for finding in findings)


def problem(finding: Finding) -> tuple[str, str | None]:
    """A problem without its place, which moves with the text."""
    return finding.code, finding.key

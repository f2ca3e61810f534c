"""A document judged by the releases that a project uses, be it one of each library or a range."""

from __future__ import annotations

from ds_lint.linter import lint
from ds_lint.linter.engine import default_rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ds_lint.diagnostics.finding import Severity, Stack
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.facts import Facts
    from ds_lint.facts.policy import Policy
    from ds_lint.knowledge.keys import Target
    from ds_lint.linter.choice import Choice
    from ds_lint.source.document import Document


def judge(
    document: Document,
    choice: Choice,
    *,
    stack: Stack | None = None,
    facts: Facts | None = None,
    from_file: bool = True,
    rules: Iterable[Rule] | None = None,
    severities: dict[str, Severity] | None = None,
    is_upgrade: bool = False,
    policies: Sequence[Policy] = (),
) -> FileReport:
    """The report on a document; for an upgrade, on what changes from the oldest releases to the newest.

    ``severities`` has, by code, the severity of the findings of a rule where it is to be another than its own, and
    ``policies`` are the JSON Schemas of the organisation.
    """

    def by(target: Target, before: Target | None = None, only: Iterable[Rule] | None = rules) -> FileReport:
        report = lint.lint_document(
            document,
            target=target,
            stack=stack,
            facts=facts,
            from_file=from_file,
            rules=only,
            before=before,
            is_upgrade=is_upgrade,
            policies=policies,
        )
        for finding in report.findings:
            finding.severity = (severities or {}).get(finding.code, finding.severity)
        return report

    if choice.is_range or is_upgrade:
        from ds_lint.linter import release_ranges  # one release of each library does without

        report = release_ranges.upgraded(choice, by) if is_upgrade else release_ranges.judged(choice, by)
    else:
        report = by(choice.newest)
    if document.issues:  # no clean file has a comment
        asked = default_rules() if rules is None else list(rules)
        hold_back(report, asked, lambda only: by(choice.newest, only=only))
    report.sources, report.ranges = choice.origins, choice.ranges
    return report


def hold_back(report: FileReport, asked: list[Rule], judge_by: Callable[[list[Rule]], FileReport]) -> None:
    """Take away what comments in the file hold back; those that hold back nothing are findings of their own."""
    from ds_lint.diagnostics import suppression

    suppression.apply(report, asked)
    report.add(judge_by([rule for rule in asked if rule.name == suppression.UNUSED]).findings)

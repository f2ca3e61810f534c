"""On what terms one config is judged."""

from __future__ import annotations

from ds_lint.linter.engine import every_rule
from ds_lint.linter.project_lint import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from ds_lint.diagnostics.finding import Severity, Stack
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.facts import Facts
    from ds_lint.facts.policy import Policy
    from ds_lint.linter.choice import Choice
    from ds_lint.settings.record import Settings
    from ds_lint.source.document import Document


class LintContext:
    """What one config is judged for, by which rules, and when it fails."""

    __slots__ = (
        "baseline",
        "choice",
        "facts",
        "fail_on",
        "is_upgrade",
        "policies",
        "rules",
        "settings",
        "severities",
        "stack",
    )

    def __init__(
        self,
        settings: Settings,
        choice: Choice,
        *,
        stack: Stack | None,
        facts: Facts,
        rules: list[Rule] | None,
        severities: dict[str, Severity],
        fail_on: str,
        baseline: str | None,
        policies: list[Policy],
        is_upgrade: bool,
    ) -> None:
        self.settings = settings
        self.choice = choice
        self.stack = stack
        self.facts = facts
        self.rules = rules  # None: those that are on anyway
        self.severities = severities  # by code, where the settings give another than the rule's own
        self.fail_on = fail_on
        self.baseline = baseline  # the path of one
        self.policies = policies
        self.is_upgrade = is_upgrade

    def about(self, facts: Facts, stack: Stack) -> LintContext:
        """The same terms for a config of which more is known."""
        return LintContext(**{**{name: getattr(self, name) for name in self.__slots__}, "facts": facts, "stack": stack})

    def without_files(self) -> LintContext:
        """The same terms without what is read when a config is judged: policies that refer to others, a baseline."""
        return LintContext(
            **{**{name: getattr(self, name) for name in self.__slots__}, "policies": [], "baseline": None}
        )

    def judge(self, document: Document, rules: list[Rule] | None) -> FileReport:
        """The report on a document by these rules; None stands for those that are on anyway."""
        return judge(
            document,
            self.choice,
            stack=self.stack,
            facts=self.facts,
            rules=rules,
            severities=self.severities,
            policies=self.policies,
            is_upgrade=self.is_upgrade,
        )

    def fixed(self, document: Document, safeties: Collection[str]) -> FileReport:
        """The report on what the fixes make of a document; those rules that are on anyway are asked, too."""
        from ds_lint.fixes.application import fix  # most runs only judge

        return fix(document, self.judge_by_all, safeties, codes=self.codes)

    def try_fixes(self, report: FileReport) -> None:
        """Find out which of the fixes in a report would be applied."""
        if not any(finding.fix for finding in report.findings):
            return
        if self.choice.is_range:  # each try would be judged by several releases
            report.may_be_unfixable = True
            return
        from ds_lint.fixes.application import try_all  # nothing to try in most files

        try_all(report, self.judge_by_all, codes=self.codes)

    @property
    def codes(self) -> set[str] | None:
        """The rules that somebody has selected; None where nobody has."""
        return None if self.rules is None else {rule.code for rule in self.rules}

    def judge_by_all(self, document: Document) -> FileReport:
        """The report by the rules that are asked for and by those that are on anyway, for fixes to be held to."""
        codes = self.codes
        if codes is None:
            return self.judge(document, None)
        return self.judge(document, [rule for rule in every_rule() if rule.is_on or rule.code in codes])

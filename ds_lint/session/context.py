"""How one config is linted."""

from __future__ import annotations

from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint_for

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from ds_lint.diagnostics.finding import Finding, Safety, Severity, Stack
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.facts import Facts
    from ds_lint.knowledge.keys import KnownReleases
    from ds_lint.linter.choice import Choice
    from ds_lint.semantics.basis import Basis
    from ds_lint.session.material import Material
    from ds_lint.settings.record import Settings
    from ds_lint.source.document import Document


class LintContext:
    """What one config is linted for, by which rules, and when it fails."""

    __slots__ = (
        "baseline", "basis", "choice", "fail_on", "fixable", "material", "rules", "settings", "severities",
        "unsafe_fixes",
    )  # fmt: skip

    def __init__(
        self,
        settings: Settings,
        choice: Choice,
        basis: Basis,
        *,
        rules: list[Rule] | None,
        severities: dict[str, Severity],
        fail_on: str,
        baseline: str | None,
        fixable: Collection[str] | None = None,
        unsafe_fixes: bool = False,
        material: Sequence[Material] = (),
    ) -> None:
        self.settings = settings
        self.choice = choice
        self.basis = basis  # for the newest of the releases
        self.rules = rules  # None: those that are on by default
        self.severities = severities  # by code, where the settings give another than the rule's own
        self.fail_on = fail_on
        self.baseline = baseline  # the path of one
        self.fixable = fixable  # the codes of the rules whose fixes may be applied; None for all
        self.unsafe_fixes = unsafe_fixes
        self.material = material  # recipes and launches that name the config

    def about(self, facts: Facts, stack: Stack | None) -> LintContext:
        """The same for a config of which more is known."""
        return self._but(basis=self.basis.but(facts=facts, stack=stack), material=())

    def launched_by(self, material: Sequence[Material]) -> LintContext:
        """The same for a config that these recipes and launches name."""
        return self._but(material=material)

    def by(self, rules: list[Rule]) -> LintContext:
        """The same by other rules."""
        return self._but(rules=rules)

    def without_files(self) -> LintContext:
        """The same without what is read when a config is linted: policies that refer to others, a baseline."""
        return self._but(basis=self.basis.but(policies=[]), baseline=None)

    def _but(self, **changes: Any) -> LintContext:
        return LintContext(**{**{name: getattr(self, name) for name in self.__slots__}, **changes})

    def lint(self, document: Document, rules: list[Rule] | None) -> FileReport:
        """The report on a document by these rules; None stands for those that are on by default."""
        report = self._linted(document, rules)
        if self.settings.per_file_ignores:
            report.findings = [one for one in report.findings if not self._is_ignored_elsewhere(one, report)]
        if self.fixable is not None:
            for finding in report.findings:
                if finding.code not in self.fixable:
                    finding.fix = None
        report.applies_unsafe = self.unsafe_fixes
        return report

    @property
    def safeties(self) -> Collection[Safety]:
        """The fixes that may be applied."""
        from ds_lint.fixes.application import ALL, SAFE  # most runs fix nothing

        return ALL if self.unsafe_fixes else SAFE

    def _is_ignored_elsewhere(self, finding: Finding, report: FileReport) -> bool:
        """Whether the settings ignore the rule for the script or launch that a finding is about."""
        path = report.place(finding).path if finding.is_elsewhere else None
        if path is None:
            return False
        rules, advisories = ignored_at(path, self.settings)
        return finding.advisory in advisories or any(rule.code == finding.code for rule in rules)

    def _linted(self, document: Document, rules: list[Rule] | None) -> FileReport:
        material = [one for one in self.material if one.may_name(document)]
        if not material:
            return lint_for(self.choice, document, self.basis, rules, self.severities)
        from ds_lint.session.material import linted  # few configs have some

        if not document.is_python:  # there the call tells what it adds
            document.is_fragment |= any(one.fills_in for one in material)
        known: KnownReleases = {}
        return linted(
            self.basis,
            material,
            lambda basis: lint_for(self.choice, document, basis, rules, self.severities, known),
        )

    def bases(self, document: Document) -> list[Basis]:
        """What a config is checked against, by each recipe or launch that names it."""
        material = [one for one in self.material if one.may_name(document)]
        if not material:
            return [self.basis]
        from ds_lint.session.material import grouped, with_material

        return [with_material(group[0], self.basis) for group in grouped(material)]

    def fixed(self, configs: Sequence[Document], safeties: Collection[str]) -> list[FileReport]:
        """The reports on what the fixes make of the configs of a file; by the rules that are on by default, too."""
        from ds_lint.fixes.together import fix_all  # most runs fix nothing

        return fix_all(configs, self.lint_by_all, safeties, codes=self.codes)

    def try_fixes(self, reports: Sequence[FileReport]) -> None:
        """Find out which of the fixes in the reports on the configs of a file would be applied."""
        if not any(finding.fix for report in reports for finding in report.findings):
            return
        if self.choice.is_range:  # each try would be linted for several releases
            for report in reports:
                report.may_be_unfixable = any(finding.fix for finding in report.findings)
            return
        from ds_lint.fixes.together import try_all  # nothing to try in most files

        try_all(reports, self.lint_by_all, codes=self.codes)

    def takes_comments(self, report: FileReport) -> bool:
        """Whether a config may have comments: if its language has them, or DeepSpeed alone loads it and skips them."""
        if report.document.has_own_comments:
            return True
        from ds_lint.knowledge.keys import knowledge

        if report.document.language != "json":
            return False  # settings do not depend on the language
        return report.stack == "deepspeed" and not knowledge(self.choice.oldest).reads_json

    @property
    def codes(self) -> set[str] | None:
        """The rules that are selected; None where none is named."""
        return None if self.rules is None else {rule.code for rule in self.rules}

    def lint_by_all(self, document: Document) -> FileReport:
        """The report by the rules that are selected and by those that are on by default, which fixes must not break."""
        codes = self.codes
        if codes is None:
            return self.lint(document, None)
        return self.lint(document, [rule for rule in every_rule() if rule.is_on or rule.code in codes])


def ignored_at(path: str, settings: Settings) -> tuple[list[Rule], frozenset[str]]:
    """The rules, and the ids of the advisories, that the settings ignore for this config alone."""
    if not settings.per_file_ignores:
        return [], frozenset()
    from ds_lint.knowledge.advisories import is_id
    from ds_lint.linter.selection import rules_of
    from ds_lint.project.globs import matches, relative

    folders = {layer.directory for layer, *_ in settings.per_file_ignores}
    places = {folder: relative(path, folder) for folder in folders}
    words = [
        word
        for layer, _, pattern, ignored in settings.per_file_ignores
        if matches(places[layer.directory], pattern)
        for word in ignored
    ]
    rules = [rule for word in words if not is_id(word) for rule in rules_of(word)]
    return rules, frozenset(word.upper() for word in words if is_id(word))

"""A text linted as ``ds-lint check`` lints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.linter.engine import every_rule
from ds_lint.lsp.documents import LintResult
from ds_lint.lsp.positions import Lines
from ds_lint.lsp.project import UNUSABLE
from ds_lint.session.verdicts import add_verdict
from ds_lint.settings import baseline
from ds_lint.source.documents import configs_in
from ds_lint.source.files import bytes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.session.context import LintContext
    from ds_lint.source.document import Document

    Verdicts = Mapping[int, list[Verdict]]

NO_VERDICTS: Verdicts = {}


def lint_text(
    documents: list[Document], lines: Lines, context: LintContext, verdicts: Verdicts = NO_VERDICTS
) -> LintResult:
    """The result of the configs in a text, with the runs of each by its index.

    If files about them cannot be read, one without them, which complains.
    """
    try:
        return _lint_text(documents, lines, context, verdicts)
    except UNUSABLE as error:
        return _lint_text(documents, lines, context.without_files(), verdicts, str(error))


def lint_file(path: str, context: LintContext, encoding: str) -> LintResult | None:
    """The same of a file that is not open; None if it cannot be read."""
    try:
        found = configs_in(bytes_of(path), path)
    except OSError:
        return None
    return lint_text(found, Lines(found[0].text, encoding), context) if found else None


def _lint_text(
    documents: list[Document], lines: Lines, context: LintContext, verdicts: Verdicts, complaint: str = ""
) -> LintResult:
    """The same. Raises OSError and SettingsError if the baseline or a policy cannot be read."""
    reports = [context.lint(document, context.rules) for document in documents]
    for report in reports:
        for verdict in verdicts.get(report.document.index, ()):
            add_verdict(report, _with_rules_of_runs(context), verdict)
    if context.baseline is not None:
        known = baseline.load(context.baseline)
        for report in reports:
            known.suppress(report)
    return LintResult(reports, context, lines, complaint)


def _with_rules_of_runs(context: LintContext) -> LintContext:
    """The same with the rules about runs: a selection of rules does not hide what a run shows."""
    if context.rules is None:
        return context
    return context.by(list(dict.fromkeys([*context.rules, *(rule for rule in every_rule() if rule.kind == "run")])))

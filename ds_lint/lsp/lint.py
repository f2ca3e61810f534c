"""A text linted as ``ds-lint check`` lints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.lsp.documents import LintResult
from ds_lint.lsp.positions import Lines
from ds_lint.lsp.project import UNUSABLE
from ds_lint.settings import baseline
from ds_lint.source.documents import configs_in
from ds_lint.source.files import bytes_of

if TYPE_CHECKING:
    from ds_lint.session.context import LintContext
    from ds_lint.source.document import Document


def lint_text(documents: list[Document], lines: Lines, context: LintContext) -> LintResult:
    """The result of the configs in a text; if files about them cannot be read, one without them, which complains."""
    try:
        return _lint_text(documents, lines, context)
    except UNUSABLE as error:
        return _lint_text(documents, lines, context.without_files(), str(error))


def lint_file(path: str, context: LintContext, encoding: str) -> LintResult | None:
    """The same of a file that is not open; None if it cannot be read."""
    try:
        found = configs_in(bytes_of(path), path)
    except OSError:
        return None
    return lint_text(found, Lines(found[0].text, encoding), context) if found else None


def _lint_text(documents: list[Document], lines: Lines, context: LintContext, complaint: str = "") -> LintResult:
    """The same. Raises OSError and SettingsError if the baseline or a policy cannot be read."""
    reports = [context.lint(document, context.rules) for document in documents]
    if context.baseline is not None:
        known = baseline.load(context.baseline)
        for report in reports:
            known.suppress(report)
    return LintResult(reports, context, lines, complaint)

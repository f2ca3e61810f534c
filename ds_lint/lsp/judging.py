"""A text judged as ``ds-lint check`` judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.lsp.documents import Judgement
from ds_lint.settings import baseline

if TYPE_CHECKING:
    from ds_lint.lsp.positions import Lines
    from ds_lint.source.document import Document
    from ds_lint.terms import Terms


def judged(document: Document, lines: Lines, terms: Terms) -> Judgement:
    """The judgement of a document. Raises OSError and SettingsError where the baseline or a policy cannot be read."""
    report = terms.judge(document, terms.rules)
    if terms.baseline is not None:
        baseline.read(terms.baseline).hold_back(report)
    return Judgement(report, terms, lines)

"""A text judged as ``ds-lint check`` judges it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.lsp.documents import Judgement
from ds_lint.lsp.project import UNUSABLE
from ds_lint.settings import baseline

if TYPE_CHECKING:
    from ds_lint.lsp.positions import Lines
    from ds_lint.session.context import Terms
    from ds_lint.source.document import Document


def judged(document: Document, lines: Lines, terms: Terms) -> Judgement:
    """The judgement of a document; where files about it cannot be read, one without them, which complains."""
    try:
        return _judged(document, lines, terms)
    except UNUSABLE as error:
        return _judged(document, lines, terms.without_files(), str(error))


def _judged(document: Document, lines: Lines, terms: Terms, complaint: str = "") -> Judgement:
    """The same. Raises OSError and SettingsError where the baseline or a policy cannot be read."""
    report = terms.judge(document, terms.rules)
    if terms.baseline is not None:
        baseline.read(terms.baseline).hold_back(report)
    return Judgement(report, terms, lines, complaint)

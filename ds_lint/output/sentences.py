"""A finding in whole sentences, for formats that have one field for all of it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding


def told(finding: Finding) -> str:
    """What is wrong and for which releases, what a training run showed, and the way out."""
    wrong = f"{finding.message} (holds for {finding.held_for})" if finding.releases else finding.message
    confirmed = f"The training run confirms it: {finding.confirmed}" if finding.confirmed else ""
    return " ".join(_ended(text) for text in (wrong, confirmed, finding.help) if text)


def _ended(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."

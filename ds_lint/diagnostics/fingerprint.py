"""What makes a finding the same one as before: the rule, the key, and the text that it points at.

Baselines and CI systems know a finding again by it. Lines and the words of the message play no part, so that neither an
edit elsewhere in the file nor another release of ds-lint makes it a new one. A path does not either: a baseline and the
CI systems each write it from a folder of their own.
"""

from __future__ import annotations

from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.source.document import Document

LONGEST = 200  # characters of the text that count
DIGITS = 32


def fingerprint(finding: Finding, document: Document) -> str:
    """The fingerprint of a finding; those of the same rule about the same text at the same key have the same."""
    return hashed(finding.name, finding.key or "", _text(document.text, finding.span.start, finding.span.end))


def hashed(*parts: str) -> str:
    """The start of a hash that changes with each of the parts."""
    return sha256("\0".join(parts).encode(errors="surrogatepass")).hexdigest()[:DIGITS]


def _text(text: str, start: int, end: int) -> str:
    """The text of a span, however it is indented; an object or array is its bracket, whatever changes inside."""
    shown = text[start : min(end, start + LONGEST)]
    return shown[0] if shown[:1] in ("{", "[") else " ".join(shown.split())

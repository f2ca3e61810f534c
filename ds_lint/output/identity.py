"""What makes a finding the same one as before, for CI systems that follow findings from commit to commit.

It is the rule, the key and the file, as a baseline counts them; of several that agree in all three, which one it is.
Lines play no part, so that an edit elsewhere in the file makes no finding new.
"""

from __future__ import annotations

from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.places import Root


def identified(report: Report, root: Root) -> Iterator[tuple[FileReport, Finding, str]]:
    """Every finding with its file and its fingerprint, which no other finding of the report has."""
    seen: dict[tuple[str, str, str], int] = {}
    for file in report.files:
        for finding in file.findings:
            identity = (root.shown(file.path), finding.name, finding.key or "")
            seen[identity] = seen.get(identity, 0) + 1
            parts = "\0".join([*identity, str(seen[identity])])
            yield file, finding, sha256(parts.encode(errors="surrogatepass")).hexdigest()[:32]

"""What CI systems follow a finding by from commit to commit: its file, and its fingerprint as a baseline has it.

Of several findings of a file with one fingerprint, which one it is counts as well: GitLab shows each only then.
"""

from __future__ import annotations

from ds_lint.diagnostics.fingerprint import fingerprint, hashed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.project_root import Root


def identified(report: Report, root: Root) -> Iterator[tuple[FileReport, Finding, str]]:
    """Every finding with its file and its identity, which no other finding of the report has."""
    seen: dict[tuple[str, str], int] = {}
    for file in report.files:
        for finding in file.findings:
            one = (root.shown(file.path), fingerprint(finding, file.document))
            seen[one] = seen.get(one, 0) + 1
            yield file, finding, hashed(*one, str(seen[one]))

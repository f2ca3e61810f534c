"""The report as GitLab reads it for the code quality of a merge request.

The format is that of Code Climate (https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format). A file
that could not be read has no place in it: the exit status of the job tells of it.
"""

from __future__ import annotations

from json import dumps

from ds_lint.output.identity import identified
from ds_lint.output.project_root import project_root
from ds_lint.output.sentences import description
from ds_lint.output.text import visible

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport, Report
    from ds_lint.output.project_root import Root
    from ds_lint.output.terminal import Terminal

    Json = dict[str, object]

SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(report: Report, _terminal: Terminal) -> str:
    """An issue for each finding."""
    root = project_root()
    issues = [_issue(root, file, finding, fingerprint) for file, finding, fingerprint in identified(report, root)]
    return dumps(issues, indent=1) + "\n"


def _issue(root: Root, file: FileReport, finding: Finding, fingerprint: str) -> Json:
    place = file.place(finding)
    (first, _), (last, _) = file.shown_document(finding).ends_in_file(place.span)
    return {
        "type": "issue",
        "check_name": finding.code,
        "description": visible(description(finding)),
        "categories": ["Bug Risk"],
        "severity": SEVERITIES[finding.severity],
        "fingerprint": fingerprint,
        "location": {"path": visible(root.shown(place.path or file.path)), "lines": {"begin": first, "end": last}},
    }

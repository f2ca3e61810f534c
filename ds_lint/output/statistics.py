"""How many findings each rule has: a summary of the state of a repository."""

from __future__ import annotations

from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.output.summary import summary
from ds_lint.output.terminal import SEVERITY, STRONG
from ds_lint.output.text import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import Report
    from ds_lint.output.terminal import Terminal

VERSION = 1  # of the JSON, raised when a reader of it would have to change
LEGEND = "[*] fixable with --fix, [-] partly fixable, or only with --unsafe-fixes"


class RuleCount:
    """The findings of one rule; ``safe`` and ``unsafe`` count those that have a fix that is applied so."""

    __slots__ = ("code", "count", "files", "name", "safe", "severity", "unsafe")

    def __init__(self, findings: list[Finding], files: set[str]) -> None:
        self.code = findings[0].code
        self.name = findings[0].name
        self.severity = min((finding.severity for finding in findings), key=SEVERITIES.index)  # the worst
        self.count = len(findings)
        self.files = len(files)
        ways = [finding.fix.applied_with for finding in findings if finding.fix]
        self.safe = ways.count("safe")
        self.unsafe = ways.count("unsafe")

    @property
    def mark(self) -> str:
        """Whether all, some or none can be fixed."""
        return "[*]" if self.safe == self.count else "[-]" if self.safe or self.unsafe else "[ ]"


def rows(report: Report) -> list[RuleCount]:
    """A row for each rule with findings, the most first."""
    by_code: dict[str, list[Finding]] = {}
    paths: dict[str, set[str]] = {}
    for file in report.files:
        for finding in file.findings:
            by_code.setdefault(finding.code, []).append(finding)
            paths.setdefault(finding.code, set()).add(file.place(finding).path or file.path)
    rows = (RuleCount(findings, paths[code]) for code, findings in by_code.items())
    return sorted(rows, key=lambda row: (-row.count, row.code))


def render(report: Report, terminal: Terminal) -> str:
    """A line for each rule, and for each training run, then the summary."""
    found = rows(report)
    digits = max((len(str(row.count)) for row in found), default=0)
    names = max((len(row.name) for row in found), default=0)
    lines = []
    for row in found:
        mark = f"{row.mark} " if report.can_fix else ""
        severity = terminal.paint(row.severity, SEVERITY[row.severity]) + " " * (len("warning") - len(row.severity))
        where = f"in {counted(row.files, 'file')}" if len(report.files) > 1 else ""
        code = terminal.paint(row.code, STRONG)
        lines.append(f"{row.count:>{digits}} {code} {mark}{row.name:<{names}} {severity} {where}".rstrip())
    if report.can_fix and any(row.mark != "[ ]" for row in found):
        lines.append(LEGEND)
    if runs := report.smoke:
        from ds_lint.output import smoke  # a check without runs does not pay for them

        lines += smoke.records(runs, terminal)
    return "\n".join([*lines, *([""] if lines else []), *summary(report, terminal)]) + "\n"


def render_json(report: Report, _terminal: Terminal) -> str:
    """The same as one JSON object, which ``schemas/statistics.schema.json`` describes."""
    from json import dumps

    described = {
        "version": VERSION,
        "tool": {"name": "ds-lint", "version": report.version},
        **({"notes": report.notes} if report.notes else {}),
        "files": len(report.files),
        "rules": [
            {
                "code": row.code,
                "name": row.name,
                "severity": row.severity,
                "findings": row.count,
                "files": row.files,
                "fixable": {"safe": row.safe, "unsafe": row.unsafe},
            }
            for row in rows(report)
        ],
    }
    return dumps(described, indent=2) + "\n"

"""``ds-lint rules``: list the rules."""

from __future__ import annotations

import sys
from json import dumps

from ds_lint import __version__
from ds_lint.diagnostics.report import page_url
from ds_lint.linter.engine import every_rule
from ds_lint.output.terminal import QUIET, SEVERITY, STRONG, terminal_of
from ds_lint.output.text import wrap
from ds_lint.rule_pages import pages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule

VERSION = 1  # of the JSON, raised when a reader of it would have to change


def rules(output_format: str = "text") -> int:
    """Print every rule: for people code, name, severity and one sentence, as JSON everything known of it."""
    if output_format == "json":
        tool = {"name": "ds-lint", "version": __version__}
        found = [described(rule) for rule in every_rule()]
        sys.stdout.write(dumps({"version": VERSION, "tool": tool, "rules": found}, indent=2) + "\n")
    else:
        _print(every_rule())
    return 0


def _print(known: list[Rule]) -> None:
    terminal = terminal_of(sys.stdout)
    for rule in known:
        severity = terminal.paint(rule.severity, SEVERITY[rule.severity])
        state = "" if rule.is_on else f", in preview since {rule.preview}" if rule.preview else ", off by default"
        sys.stdout.write(f"{terminal.paint(rule.code, STRONG)} {rule.name} ({severity}{state})\n")
        for line in wrap(pages.summary(rule), terminal.width, taken=6, indent=6):
            sys.stdout.write(f"      {line.strip()}\n")
    count = terminal.paint(f"{len(known)} rules. For details: ds-lint explain CODE", QUIET)
    sys.stdout.write(f"{count}\n")


def described(rule: Rule) -> dict[str, object]:
    """A rule with what its page says of it as a whole."""
    page = pages.page(rule)
    row = pages.row(page)
    return {
        "code": rule.code,
        "name": rule.name,
        "family": rule.family,
        "summary": pages.first_paragraph(page),
        "severity": rule.severity,
        "severities": row.severities,
        "effects": row.effects,
        "fixes": pages.fixes(page),
        "default": rule.is_on,
        "preview": rule.preview,
        "since": row.since,
        "url": page_url(rule),
    }

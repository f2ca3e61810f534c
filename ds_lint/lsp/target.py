"""What a text is linted with, for a client to show."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.targets.pin import LIBRARIES, PinPlace

if TYPE_CHECKING:
    from ds_lint.linter.choice import Choice
    from ds_lint.lsp.documents import LintResult, OpenDocument
    from ds_lint.session.context import LintContext


def target_of(opened: OpenDocument, context: LintContext, result: LintResult | None) -> dict[str, object]:
    """The answer to ``ds-lint/target``; without a result it says only what the text would be linted with."""
    choice = context.choice
    answer: dict[str, object] = {
        "uri": opened.uri,
        "config": opened.is_config,
        "target": {
            library: {
                "version": choice.releases[library][-1],
                "oldest": choice.releases[library][0],
                "source": _source(choice, library),
            }
            for library in LIBRARIES
        },
        "settings": context.settings.path or None,
        "notes": list(choice.notes),
    }
    if result is not None:
        counts = Counter(finding.severity for finding, _ in result.found)
        unreported: Counter[str] = Counter()
        for report in result.reports:
            unreported.update(report.unreported)
        stacks = {report.stack for report in result.reports}
        answer |= {
            "stack": stacks.pop() if len(stacks) == 1 else None,
            "stacks": list(dict.fromkeys(stack for report in result.reports for stack in report.stacks)),
            "missing": list(dict.fromkeys(fact for report in result.reports for fact in report.missing)),
            "findings": {severity: counts[severity] for severity in SEVERITIES},
            "heldBack": dict(unreported),
        }
    return answer


def _source(choice: Choice, library: str) -> str:
    """The source of a release; a file by its whole path, so that a client can open it."""
    pin = choice.pins.get(library)
    if pin is None or pin.is_installed:
        return choice.origins[library]
    if not pin.places:  # an option of the command line, which the client's settings are taken for
        return "the settings of the editor"
    return " and ".join(str(PinPlace(os.path.abspath(one.path), one.line, within=one.within)) for one in pin.places)

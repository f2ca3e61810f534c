"""What the rules say of the text of a script with FSDP, held against its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.verdict import Check
from ds_lint.smoke.script.predictions import CONFIRMED, PREDICTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.verdict import Verdict

# By rule, the check that shows the same in a run.
_SHOWN_BY = {
    "DS644": "units",
    "DS645": "start",
    "DS646": "update",
    "DS647": "start",
    "DS648": "start",
    "DS649": "clipping",
}
_ONE_UNIT = "DS644"
_SHOWS = ("fail", "warn", "error")


def with_predictions(verdict: Verdict, report: FileReport) -> Verdict:
    """The verdict with a check for each finding that the run confirms; a run of a few steps contradicts none."""
    made = list(_confirmed(verdict, report))
    return verdict._replace(checks=[*verdict.checks, *made])


def _confirmed(verdict: Verdict, report: FileReport) -> Iterator[Check]:
    for finding in report.findings:
        for check in verdict.checks:
            if check.id != _SHOWN_BY.get(finding.code):
                continue
            is_one_unit = finding.code == _ONE_UNIT and check.observed == 1
            if check.status in _SHOWS or is_one_unit:
                finding.confirmed = finding.confirmed or check.message
                why = f"{finding.code} ({finding.name}) is {CONFIRMED}: {check.message}"
                yield Check(PREDICTION, "pass", finding.key, finding.effect, check.message, None, why)
                break

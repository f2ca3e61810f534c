"""A training run in the report on its config: its findings, which may confirm those that the report has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.diagnostics.finding import SEVERITIES
from ds_lint.diagnostics.verdict import SCRIPT, WITHOUT_CONFIG
from ds_lint.facts import Facts

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.session.context import LintContext

_REFUSED = "run-is-refused"
# Risks in the text that a run may show: by the rule about the text, those about runs, and what their messages name.
_FORETOLD: dict[str, tuple[tuple[str, ...], str]] = {
    "nvme-states-lost-on-resume": (("checkpoint-does-not-resume", "weights-are-not-recovered"), "offload_optimizer"),
    "too-few-swap-buffers": ((_REFUSED,), "deepspeed/runtime/swap_tensor/"),
}
_WITHOUT_EFFECT = ("ignored", "no-effect")  # of a section: what it asks for does not happen
_BEFORE_TRAINING = ("load", "parse", "initialize")  # deepspeed.initialize does all


def add_verdict(report: FileReport, context: LintContext, verdict: Verdict) -> None:
    """Add a run to the report, and the findings of the rules about runs."""
    report.smoke = [*(report.smoke or ()), verdict]
    known = context.basis.facts
    facts = Facts(world_size=known.world_size, nodes=known.nodes, training=known.training)
    facts.smoke = [verdict]
    context = context.about(facts, None if verdict.stack == WITHOUT_CONFIG else verdict.stack)
    found = context.lint(report.document, context.rules).findings
    add_findings(report, found, is_of_script=verdict.mode == SCRIPT)


def add_findings(report: FileReport, found: list[Finding], *, is_of_script: bool = False) -> None:
    """Add the findings about runs to the report, or let them confirm findings that it has.

    A script raises for many reasons: ``ds_lint/smoke/script/predictions.py`` has found out before which findings
    predict it.
    """
    new = []
    for finding in (one for one in found if one.kind == "run"):
        if any((one.code, one.key) == (finding.code, finding.key) for one in report.findings):
            continue  # the run before showed it
        predicted = [one for one in report.findings if _predicts(one, finding)]
        if is_of_script and finding.name == _REFUSED:
            predicted = [one for one in predicted if one.confirmed]
        for one in predicted:
            if one.confirmed is None:
                one.confirmed = finding.message
            elif finding.name != _REFUSED and finding.message not in one.confirmed:
                one.confirmed += f"; {finding.message}"
            one.confirmed_by.append(finding.subject)
        same = [one for one in predicted if _says_the_same(one, finding)]
        for one in same:  # what was a risk is a fact now, and is reported once
            one.severity = min(one.severity, finding.severity, key=SEVERITIES.index)
        if not same:
            new.append(finding)
    report.add(new)


def _predicts(earlier: Finding, finding: Finding) -> bool:
    """Whether an earlier finding predicts one of a run."""
    if _foretells(earlier, finding):
        return True
    if finding.name == _REFUSED:
        stages = _BEFORE_TRAINING if finding.stage in _BEFORE_TRAINING else (finding.stage,)
        return earlier.effect == "rejected" and earlier.stage in stages
    is_of_section = earlier.effect in _WITHOUT_EFFECT and (finding.key or "").startswith(f"{earlier.key}.")
    return (_is_of_the_same(earlier, finding) or is_of_section) and earlier.severity != "info"


def _foretells(earlier: Finding, finding: Finding) -> bool:
    """Whether the risk of an earlier finding is what a run shows."""
    names, part = _FORETOLD.get(earlier.name, ((), ""))
    return finding.name in names and part in f"{finding.key} {finding.message} {finding.help}"


def _is_of_the_same(earlier: Finding, finding: Finding) -> bool:
    return earlier.key == finding.key or earlier.span == finding.span


def _says_the_same(earlier: Finding, finding: Finding) -> bool:
    """Whether a finding of a run only confirms the one that predicts it."""
    if _foretells(earlier, finding):
        return True
    is_there = _is_of_the_same(earlier, finding) or finding.name == _REFUSED
    return earlier.effect == finding.effect and is_there

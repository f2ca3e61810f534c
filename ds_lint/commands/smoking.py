"""``ds-lint check --smoke``: train with each config, and report what it showed beside what was judged."""

from __future__ import annotations

import sys
from typing import NamedTuple

from ds_lint import __version__
from ds_lint.choice import choose
from ds_lint.commands import progress
from ds_lint.facts import Facts
from ds_lint.finding import SEVERITIES
from ds_lint.output.smoke import outcome
from ds_lint.smoke.client import CouldNotRun, Pool, ended_by_signal
from ds_lint.smoke.proving import RANKS, SECONDS, Wish, prove
from ds_lint.targets.distributions import installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from ds_lint.commands.terms import Terms
    from ds_lint.facts.smoke import Verdict
    from ds_lint.finding import Finding
    from ds_lint.output.report import FileReport

_RUN_RULES = "DS9"
_BEFORE_TRAINING = ("parse", "initialize")  # deepspeed.initialize does both


class Smoke(NamedTuple):
    """What the command line says about runs."""

    wish: Wish = Wish(RANKS, SECONDS)
    report: str | None = None  # the HTML file to write


def smoke_of(options: Namespace) -> Smoke:
    """The same from the options of ``check``."""
    wish = Wish(
        options.smoke_ranks or RANKS, options.smoke_timeout or SECONDS, options.smoke_build_ops, options.smoke_keep
    )
    return Smoke(wish, options.smoke_report)


def prove_all(judged: list[tuple[FileReport, Terms]], smoke: Smoke) -> list[str]:
    """Train with every config that was judged, add what that showed to its report, and say what could not be run."""
    if not judged:
        return []
    complaints: list[str] = []
    try:
        with ended_by_signal(), Pool() as pool, progress.shown(len(judged)) as show:
            _ = pool.versions
            for report, terms in judged:
                complaints += _prove(pool, report, terms, smoke, show)
    except CouldNotRun as error:
        complaints.append(f"the smoke run could not be made: {error}")
    except (KeyboardInterrupt, SystemExit) as ended:
        name = "Ctrl-C" if isinstance(ended, KeyboardInterrupt) else "SIGTERM"
        sys.stderr.write(f"ds-lint: {name} ended the smoke run; nothing of it is left\n")
        raise
    if smoke.report is not None:
        _write_page([run for report, _ in judged for run in report.smoke or ()], smoke.report)
    return complaints


def _write_page(runs: list[Verdict], path: str) -> None:
    from ds_lint.smoke import page  # plotly is slow to import

    with open(path, "w", encoding="utf-8") as file:
        file.write(page.render(runs, __version__))


def _prove(pool: Pool, report: FileReport, terms: Terms, smoke: Smoke, show: progress.Show) -> list[str]:
    """Train with one config and add what that showed to its report; a complaint if it could not be done."""
    # The releases that run are the installed ones, whatever the project pins.
    target = choose("", {}, installed("")).newest
    stack = report.stack or terms.stack
    try:
        verdict = prove(
            pool,
            report.document,
            stack=stack,
            facts=terms.facts,
            target=target,
            wish=smoke.wish,
            on_phase=show.config(report.path),
        )
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        show.done("could not run")
        return [f"{report.path}: the smoke run could not be made: {place}{error.strerror or error}"]
    show.done(outcome(verdict))
    report.smoke = [verdict]
    _add_findings(report, terms, verdict)
    if verdict.status == "error":
        return [f"{report.path}: the smoke run could not be made: {verdict.error}{_log(verdict)}"]
    return []


def _log(verdict: Verdict) -> str:
    return f" (what the libraries printed: {verdict.log})" if verdict.log else ""


def _add_findings(report: FileReport, terms: Terms, verdict: Verdict) -> None:
    """The findings of the rules about runs; one that says again what was found before confirms that instead."""
    facts = Facts(world_size=terms.facts.world_size, nodes=terms.facts.nodes, training=terms.facts.training)
    facts.smoke = [verdict]
    terms = terms.about(facts, verdict.stack)
    add_findings(report, terms.judge(report.document, terms.rules).findings)


def add_findings(report: FileReport, found: list[Finding]) -> None:
    """Put the findings about runs among these into the report, or let those that it has be confirmed by them."""
    new = []
    for finding in (one for one in found if one.code.startswith(_RUN_RULES)):
        foretold = [one for one in report.findings if _foretells(one, finding)]
        for one in foretold:
            one.confirmed = one.confirmed or finding.message
        if not any(one.effect == finding.effect and not _is_milder(one, finding) for one in foretold):
            new.append(finding)
    report.add(new)


def _is_milder(earlier: Finding, finding: Finding) -> bool:
    """Whether a finding of a run is worse than what was foretold, so that it has to count too."""
    return SEVERITIES.index(earlier.severity) > SEVERITIES.index(finding.severity)


def _foretells(earlier: Finding, finding: Finding) -> bool:
    """Whether a finding of a run is what an earlier one has foretold."""
    if finding.name == "run-is-refused":
        stages = _BEFORE_TRAINING if finding.stage in _BEFORE_TRAINING else (finding.stage,)
        return earlier.effect == "rejected" and earlier.stage in stages
    return (earlier.key == finding.key or earlier.span == finding.span) and earlier.severity != "info"

"""``ds-lint check --smoke-launches``: a few steps of each launch of the project, and what they show of its configs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.commands import progress
from ds_lint.commands.show_launches import files_with_launches
from ds_lint.diagnostics.report import Complaint, FileReport
from ds_lint.diagnostics.verdict import WITHOUT_CONFIG, Adaptation
from ds_lint.output.smoke import outcome
from ds_lint.session.launch_runs import LaunchProcess, RunnableLaunch, runnable
from ds_lint.session.verdicts import add_verdict
from ds_lint.smoke.probe.plan import TRAIN
from ds_lint.smoke.processes.client import ended_by_signal
from ds_lint.smoke.small_run import devices
from ds_lint.source.document import Document

if TYPE_CHECKING:
    from argparse import Namespace

    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.session.context import LintContext
    from ds_lint.session.launch_runs import LaunchOutcome
    from ds_lint.session.options import Options
    from ds_lint.session.session import Session

    Linted = list[tuple[FileReport, LintContext]]

_LONGEST_LINE = 60  # characters of what a script prints that are shown as its progress


class LaunchRuns(NamedTuple):
    """The options about runs of launches."""

    options: tuple[str, ...] = ()  # of ``ds-lint smoke``
    quiet: bool = False  # no progress is shown


class PlacedLaunch(NamedTuple):
    """A launch that can be run, its place, and the file that has it."""

    place: str
    path: str
    wanted: RunnableLaunch


def launch_runs_of(options: Namespace) -> LaunchRuns:
    """The same from the options of ``check``."""
    timeout = [f"--timeout={options.smoke_timeout}"] if options.smoke_timeout is not None else []
    on_cpu = ["--cpu"] if options.smoke_device == "cpu" else []
    return LaunchRuns((*timeout, *on_cpu), options.quiet)


def prove_launches(
    options: Options, session: Session, linted: Linted, runs: LaunchRuns, unable: list[Complaint]
) -> None:
    """Run each launch, and add what it shows to the report on its config; what cannot be run is a complaint."""
    for report, _ in linted:
        report.smoke = report.smoke or []
    launches = list(_launches(options, session, unable))
    with ended_by_signal(), progress.shown(len(launches), quiet=runs.quiet) as show:
        for launch in launches:
            found = _run(launch, runs, show.config(launch.place))
            show.done(", ".join(dict.fromkeys(map(outcome, found.verdicts))) or "could not run")
            if found.error is not None:
                unable.append(Complaint(None, f"{launch.place}: the launch could not be run: {found.error}"))
            for verdict in found.verdicts:
                _add(_placed(verdict, launch), launch, session, linted, unable)


def _launches(options: Options, session: Session, unable: list[Complaint]) -> list[PlacedLaunch]:
    """The launches that can be run, each command once; the others are complaints."""
    gpus = devices.visible()
    found: dict[object, PlacedLaunch] = {}
    for project, file in files_with_launches(options, session, unable):
        for launch in file.launches:
            path = os.path.normpath(os.path.join(project, launch.path))
            place = os.path.normpath(os.path.join(project, file.place_of(launch)))
            wanted = runnable(launch, project, gpus)
            if isinstance(wanted, str):
                unable.append(Complaint(None, f"{place}: the launch is not run: {wanted}"))
                continue
            same = tuple(wanted.words), wanted.folder, tuple(sorted(wanted.environment.items()))
            if same not in found:
                found[same] = PlacedLaunch(place, path, wanted)
    return list(found.values())


def _run(launch: PlacedLaunch, runs: LaunchRuns, on_phase: progress.OnPhase) -> LaunchOutcome:
    """Run one launch, whose last line is its progress; Ctrl-C ends it, too."""
    options = tuple(dict.fromkeys([*launch.wanted.options, *runs.options]))
    process = LaunchProcess(launch.wanted._replace(options=options))
    try:
        return process.outcome(lambda line: on_phase(TRAIN, line[:_LONGEST_LINE]))
    except BaseException:
        process.end()
        raise


def _placed(verdict: Verdict, launch: PlacedLaunch) -> Verdict:
    """The verdict with the place of its launch, and what the run does otherwise than the launch."""
    noted = [Adaptation(None, None, None, launch.wanted.note)] if launch.wanted.note else []
    return verdict._replace(launch=launch.place, adaptations=[*verdict.adaptations, *noted])


def _add(verdict: Verdict, launch: PlacedLaunch, session: Session, linted: Linted, unable: list[Complaint]) -> None:
    """Add the run of an engine to the report on its config; of one in no file, to a report on the launching script."""
    whole = os.path.realpath(verdict.path)
    known = [one for one in linted if os.path.realpath(one[0].path) == whole]
    if not known:
        known = [one for one in linted if one[0].path == launch.path] or [_of_script(launch, verdict, session)]
        if known[0] not in linted:
            linted.append(known[0])
    report, context = known[0]
    add_verdict(report, context, verdict._replace(path=report.path))
    if verdict.status == "error":
        why = verdict.error or next((check.message for check in verdict.checks if check.status == "error"), "")
        unable.append(Complaint(None, f"{launch.place}: the run of the launch is incomplete", why))


def _of_script(launch: PlacedLaunch, verdict: Verdict, session: Session) -> tuple[FileReport, LintContext]:
    """A report on the script with the launch, for engines whose config is in no file that is checked."""
    context = session.context(launch.path)
    target = {library: releases[-1] for library, releases in context.choice.releases.items()}
    with open(launch.path, encoding="utf-8", errors="replace") as file:
        document = Document(launch.path, file.read(), None, [])
    stack = verdict.stack if verdict.stack != WITHOUT_CONFIG else None
    return FileReport(launch.path, document, stack=stack, target=target, missing=[], findings=[]), context

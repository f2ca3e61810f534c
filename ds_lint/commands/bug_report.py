"""``ds-lint bug-report``: what the bug reports of the libraries ask for, of this machine, a project and a log."""

from __future__ import annotations

import os
import sys
from json import dumps
from typing import TYPE_CHECKING, Any

from ds_lint import __version__
from ds_lint.commands.doctor import sorted_paths
from ds_lint.commands.documents import STANDARD_INPUT, complaints_into, linted_documents
from ds_lint.commands.failures import WRONG_USAGE, complain, list_unreadable
from ds_lint.commands.launched_configs import read_config
from ds_lint.commands.one_config import UnreadableConfigError
from ds_lint.commands.report import print_text
from ds_lint.commands.show_launches import files_with_launches
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.machine.machine import machine
from ds_lint.launches.launch import NO_LAUNCHER
from ds_lint.logs.cause import Reported
from ds_lint.logs.diagnosis import diagnosis
from ds_lint.output.bug_report_contents import BugReport, EffectiveConfig
from ds_lint.output.private import hosts_in_words, names_here
from ds_lint.output.secrets import secrets_in_words
from ds_lint.project.launches import LaunchFile
from ds_lint.semantics.effective import effective, is_default
from ds_lint.session.options import Options
from ds_lint.session.session import Session
from ds_lint.source import documents, replacement
from ds_lint.source.languages import JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.commands.options import BugReportOptions
    from ds_lint.diagnostics.report import Complaint, FileReport
    from ds_lint.launches.launch import Launch
    from ds_lint.logs.record import Log
    from ds_lint.session.context import LintContext
    from ds_lint.source.document import Document

    Linted = list[tuple[FileReport, LintContext]]

_PRINTED = "<printed>"
_MOST_CONFIGS = 3  # that are shown as they are used


def bug_report(options: Options, own: BugReportOptions) -> int:
    """Write the report, and return the exit status: 2 if a named file cannot be read."""
    logs, material, unread, missing = sorted_paths(options.paths)
    if missing:
        return complain(f"{missing[0]}: no such file or folder")
    options.paths = material or [os.curdir]
    options.output_format = None  # of the report, not of findings
    unreadable: list[Complaint] = []
    try:
        session = Session(options, on_error=complaints_into(unreadable))
        linted = linted_documents(options, session, unreadable)
        problems = _train(linted) if own.smoke else []
        launches = list(_launches(options.paths, session, linted))
        shown, others = _chosen(linted)
        configs = [one for report, context in shown for one in _effective(report, context, session)]
        printed = [] if configs else [(log, _printed(log.config)) for log in logs if log.config is not None]
        configs += [_of_log(log, document, session) for log, document in printed]
    except WRONG_USAGE as error:
        return complain(error)
    list_unreadable(unreadable)
    reports = [report for report, _ in linted]
    report = BugReport(
        __version__,
        machine(_project(options.paths[0])),
        launches,
        configs,
        others,
        reports,
        diagnosis(logs, list(_reported(reports)), unread) if logs or unread else None,
        own.smoke,
        problems,
        [*(document for one in reports for document in (one.document, *one.material)), *(one for _, one in printed)],
        names_here().with_hosts(_hosts(launches, logs)).with_secrets(_secrets(launches)),
    )
    return _write(report, own) or (2 if unreadable or unread else 0)


def _launches(named: list[str], session: Session, linted: Linted) -> Iterator[tuple[LaunchFile, Launch]]:
    """The launches below the named folders and in the named files; of a config alone, those that name it."""
    paths = [path for path in named if os.path.isdir(path) or not path.endswith(JSON)]
    files = files_with_launches(Options(paths), session, []) if paths else ()
    found = [(file, launch) for _, file in files for launch in file.launches]
    if found:
        yield from found
        return
    for report, context in linted:
        for one in context.material:
            if isinstance(one, LaunchFacts) and one.launch.launcher != NO_LAUNCHER and one.may_name(report.document):
                document, launch = one.document, one.launch
                yield LaunchFile(launch.path, document.text, [launch], [], (), document.notebook), launch


def _write(report: BugReport, own: BugReportOptions) -> int:
    """Write it where it belongs; 2 if that is not possible."""
    if own.output_format == "json":
        from ds_lint.output import bug_report_json

        text = bug_report_json.text(report)
    else:
        from ds_lint.output import bug_report as markdown

        text = markdown.render(report)
    if own.output_file is None or own.output_file == STANDARD_INPUT:
        print_text(text, sys.stdout)
        return 0
    try:
        replacement.write(own.output_file, text.encode(errors="backslashreplace"), is_report=True)
    except OSError as error:
        return complain(f"{own.output_file}: {error.strerror or error}")
    return 0


def _project(path: str) -> str:
    """The folder of the project, for its environment and pins."""
    return path if os.path.isdir(path) else os.path.dirname(path)


def _train(linted: Linted) -> list[str]:
    """Train with each config, and say what could not be run."""
    from ds_lint.commands.training_runs import Smoke, prove_all

    return [str(complaint) for complaint in prove_all(linted, Smoke())]


def _chosen(linted: Linted) -> tuple[Linted, list[str]]:
    """The configs that are shown as they are used, those that a launch names first, and the paths of the others."""
    configs = [
        one
        for one in linted
        if one[0].document.has_config and not (one[0].document.is_of_names or one[0].document.is_of_fsdp)
    ]
    named = [(report, context) for report, context in configs if _is_named(report, context)]
    shown = (named or configs)[:_MOST_CONFIGS]
    return shown, list(dict.fromkeys(one[0].path for one in configs if one not in shown))


def _is_named(report: FileReport, context: LintContext) -> bool:
    return any(one.may_name(report.document) for one in context.material)


def _effective(report: FileReport, context: LintContext, session: Session) -> Iterator[EffectiveConfig]:
    """A config as it is used, by the first launch or recipe that names it."""
    material = next((one for one in context.material if one.may_name(report.document)), None)
    launch = os.path.normpath(material.origin) if material is not None else None
    basis = context.bases(report.document)[0].but(policies=())
    if report.stack is not None:
        basis = basis.but(stack=report.stack)
    try:
        config = read_config(report.document, basis, session)
        values = effective(config, everything=False)
    except (UnreadableConfigError, OSError, RecursionError) as error:
        yield EffectiveConfig(report.path, report.stack, launch=launch, problem=str(error))
        return
    yield EffectiveConfig(
        config.document.path,
        config.stack,
        report.stack is not None,
        report.target,
        launch,
        values,
        [value for value in values if not is_default(config, value)],
    )


def _printed(config: dict[str, Any]) -> Document:
    """The config that DeepSpeed has printed into a log, as a document."""
    return documents.from_bytes(dumps(config).encode(), _PRINTED)


def _of_log(log: Log, document: Document, session: Session) -> EffectiveConfig:
    """The config of a run of which only the log is here; what filled it has done so before it was printed."""
    basis = session.context(document.path).basis.but(policies=(), stack="deepspeed")
    config = read_config(document, basis, session)
    values = effective(config, everything=False)
    for value in values:
        if value.by == "written":
            value.source = f"printed in {log.path}"
    changed = [value for value in values if not is_default(config, value)]
    return EffectiveConfig(log.path, config.stack, values=values, changed=changed)


def _reported(reports: list[FileReport]) -> Iterator[Reported]:
    """The findings, each with the place where it is shown."""
    for report in reports:
        for finding in report.findings:
            place = report.place(finding)
            line, _ = report.shown_document(finding).position(place.span.start)
            yield Reported(finding, place.path or report.path, line)


def _hosts(launches: list[tuple[LaunchFile, Launch]], logs: list[Log]) -> Iterator[str]:
    """The hosts that launches and logs name."""
    for _, launch in launches:
        yield from hosts_in_words(launch.command)
        yield from hosts_in_words(launch.around)
    for log in logs:
        yield from (one.host for one in log.exits if one.host is not None)
        yield from (one.origin.host for one in log.raised if one.origin.host is not None)
        yield from hosts_in_words(log.facts.get("command", "").split())


def _secrets(launches: list[tuple[LaunchFile, Launch]]) -> Iterator[str]:
    """The secrets in the words and variables of launches."""
    for _, launch in launches:
        yield from secrets_in_words(launch.command)
        yield from secrets_in_words(f"{name}={value}" for name, value in launch.environment.items() if value)

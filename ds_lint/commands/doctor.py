"""``ds-lint doctor``: why a run failed or went wrong, by its logs and the project that was run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ds_lint import check
from ds_lint.commands import streams
from ds_lint.commands.documents import STANDARD_INPUT, complaints_into, linted_documents
from ds_lint.commands.expected_memory import add_expected_memory
from ds_lint.commands.failures import WRONG_USAGE, complain, list_unreadable
from ds_lint.commands.report import print_text
from ds_lint.facts import Sources
from ds_lint.logs import phases, reading
from ds_lint.logs.cause import Reported
from ds_lint.logs.diagnosis import Diagnosis, diagnosis
from ds_lint.logs.record import world_size_in
from ds_lint.output import diagnosis as for_people
from ds_lint.output import diagnosis_json
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.session.session import Session

if TYPE_CHECKING:
    from ds_lint.diagnostics.report import Complaint
    from ds_lint.logs.record import Log
    from ds_lint.session.options import Options
    from ds_lint.source.document import Document

# A file of a project by its ending; any other is a log, and so is JSON that is not a config.
_OF_PROJECTS = (".yaml", ".yml", ".py", ".sh", ".bash", ".slurm", ".sbatch", ".toml", ".cfg", ".mk", ".lock", ".hjson")
_JSON = (".json", ".jsonl")


def watch(options: Options, seconds: int) -> int:
    """Follow a growing log; the exit status is 1 when the run goes wrong."""
    from ds_lint.commands.following import follow  # most read a log that is whole

    if len(options.paths) != 1 or options.paths[0] == STANDARD_INPUT:
        return complain("--watch follows one log, a file")
    try:
        return follow(options.paths[0], seconds, lambda log, found: _print(options, Diagnosis([log], found), []))
    except OSError as error:
        return complain(f"{options.paths[0]}: {error.strerror}")


def doctor(options: Options) -> int:
    """Print the causes; the exit status is 1 if there are some."""
    logs, material, unread, missing = sorted_paths(options.paths)
    if missing:
        return complain(f"{missing[0]}: no such file or folder")
    if not logs and not unread:
        return complain("doctor needs a log: a file, several, or - for standard input")
    unreadable: list[Complaint] = []
    documents: list[Document] = []
    try:
        if material:
            session = _session(options, material, logs, unreadable)
            findings = _findings(options, session, unreadable, documents)
            found = diagnosis(logs, findings, unread)
            add_expected_memory(found.causes, documents, session)
        else:
            found = diagnosis(logs, _of_printed(logs), unread)
    except WRONG_USAGE as error:
        return complain(error)
    list_unreadable(unreadable)
    status = _print(options, found, documents)
    return 2 if unreadable or (unread and not logs) else status


def _print(options: Options, found: Diagnosis, documents: list[Document]) -> int:
    if options.output_format == "json":
        sys.stdout.write(harmless(diagnosis_json.text(found), JSON, documents))
    else:
        text = "".join(f"{line}\n" for line in for_people.lines(found, terminal_of(sys.stdout)))
        print_text(harmless(text, documents=documents), sys.stdout)
    return 1 if found.causes else 0


def sorted_paths(paths: list[str]) -> tuple[list[Log], list[str], int, list[str]]:
    """The logs among the paths, what belongs to the project, how many files are not text, and missing ones."""
    logs: list[Log] = []
    material: list[str] = []
    missing: list[str] = []
    unread = 0
    for path in paths:
        if path == STANDARD_INPUT:
            log = reading.read("<stdin>", streams.standard_input())
        elif os.path.isdir(path) or path.lower().endswith(_OF_PROJECTS):
            material.append(path)
            continue
        else:
            try:
                with open(path, "rb") as file:
                    if path.lower().endswith(_JSON) and not reading.is_of_records(file):
                        material.append(path)
                        continue
                    log = reading.read(path, file)
            except FileNotFoundError:
                missing.append(path)
                continue
            except OSError:
                log = None
        if log is None:
            unread += 1
        else:
            logs.append(log)
        if path.lower().endswith(".ipynb"):
            material.append(path)
    return logs, material, unread, missing


def _of_printed(logs: list[Log]) -> list[Reported]:
    """The findings in the config that DeepSpeed has printed into a log, if there is one."""
    found = []
    for log in logs:
        if log.config is None:
            continue
        size = log.facts.get("world_size", "")
        world_size = int(size) if size.isdecimal() and int(size) else None
        known = log.releases.get("deepspeed")
        try:
            findings = check(log.config, stack="deepspeed", deepspeed_version=known, world_size=world_size)
        except ValueError:
            continue
        found += [Reported(one, log.path, log.config_at) for one in findings]
    return found


def _session(options: Options, material: list[str], logs: list[Log], unreadable: list[Complaint]) -> Session:
    """The session in which the project is checked, with what only the logs know of the run."""
    options.paths = material
    if options.stack is None:  # of a script without a launch, the log knows more than the project
        options.stack = next(filter(None, (phases.stack_of(one) for log in logs for one in log.raised)), None)
    facts = Sources(world_size=world_size_in(logs), given_by="the log")
    if options.sources.gpu is None:
        facts.gpu_memory = next((log.facts["gpu_memory"] for log in logs if "gpu_memory" in log.facts), None)
    options.sources = options.sources.over(facts)
    return Session(options, on_error=complaints_into(unreadable))


def _findings(
    options: Options, session: Session, unreadable: list[Complaint], documents: list[Document]
) -> list[Reported]:
    """The findings of the project, each with the place where it is shown."""
    found = []
    for report, _ in linted_documents(options, session, unreadable):
        documents.append(report.document)
        for finding in report.findings:
            line, _ = report.shown_document(finding).position(report.place(finding).span.start)
            found.append(Reported(finding, report.place(finding).path or report.path, line))
    return found

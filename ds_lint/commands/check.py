"""``ds-lint check``: judge configs and report."""

from __future__ import annotations

import os
import sys

from ds_lint import __version__
from ds_lint.diagnostics.report import Report
from ds_lint.facts import UnreadableFact
from ds_lint.linter import lint
from ds_lint.linter.choice import UnknownRelease
from ds_lint.output import FOR_PROGRAMS, renderer
from ds_lint.output.terminal import terminal_of
from ds_lint.session.session import Wishes
from ds_lint.settings.record import SettingsError
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO, TypeVar

    from ds_lint.commands.training_runs import Smoke
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.context import Terms
    from ds_lint.session.options import Options
    from ds_lint.source.document import Document

    Result = TypeVar("Result")

STANDARD_INPUT = "-"
WRONG_USAGE = (UnknownRelease, UnreadableFact, SettingsError)  # a message is enough


def check(options: Options, smoke: Smoke | None = None) -> int:
    """Judge, train if that is asked for, print, and return the exit status."""
    unreadable: list[str] = []
    try:
        wishes = Wishes(options)
        if options.fix or options.diff:
            from ds_lint.commands import fixes

            if options.diff:
                return fixes.diff(options, wishes, unreadable)
            judged = fixes.fix(options, wishes, unreadable)
        else:
            judged = judged_documents(options, wishes, unreadable)
        if smoke is not None:
            from ds_lint.commands import training_runs

            unreadable += training_runs.prove_all(judged, smoke)
        notes = wishes.notes
        if any(terms.baseline is not None for _, terms in judged):
            from ds_lint.commands import baselines  # few runs have one

            notes += baselines.hold_back(judged, is_written=options.write_baseline)
    except WRONG_USAGE as error:
        return complain(error)
    return finish(options, judged, notes, unreadable)


def judged_documents(options: Options, wishes: Wishes, unreadable: list[str]) -> list[tuple[FileReport, Terms]]:
    """The report on every document that was asked for, with the terms that it was judged on."""
    judged = []
    for document in documents(options, wishes, unreadable):
        terms = wishes.terms(document.path)
        report = unless_it_fails(lambda: terms.judge(document, terms.rules), document.path, unreadable)  # noqa: B023 - called at once
        if report is not None:
            judged.append((report, terms))
    return judged


def unless_it_fails(work: Callable[[], Result], path: str, unreadable: list[str]) -> Result | None:
    """What is made of a file; None where ds-lint itself fails over it, which does not keep it from the other files."""
    try:
        return work()
    except (*WRONG_USAGE, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not look like a verdict
        from traceback import format_exc

        sys.stderr.write(format_exc())
        unreadable.append(f"{path}: internal error ({type(error).__name__}); please report it with this file")
        return None


def complain(error: Exception) -> int:
    """Say what cannot be used of the command line or the settings; the exit status for it."""
    for line in str(error).splitlines():
        sys.stderr.write(f"ds-lint: {line}\n")
    return 2


def documents(options: Options, wishes: Wishes, unreadable: list[str]) -> Iterator[Document]:
    """The files that were asked for, and those in a folder that hold a config; complaints go to ``unreadable``."""
    seen: set[str] = set()
    for path in options.paths:
        yield from documents_at(path, options, wishes, unreadable, seen)


def documents_at(
    path: str, options: Options, wishes: Wishes, unreadable: list[str], seen: set[str]
) -> Iterator[Document]:
    """The same for one of the paths that were asked for, without those that were ``seen`` at another."""
    if path == STANDARD_INPUT:
        yield lint.read(sys.stdin.buffer.read(), options.stdin_filename or "<stdin>")
    elif os.path.isdir(path):
        from ds_lint.project.discovery import json_files

        def on_error(error: OSError) -> None:
            unreadable.append(f"{error.filename}: {error.strerror}")

        for found in json_files(path, on_error, wishes.excludes):
            if _is_first(found, seen):
                yield from _document(found, unreadable, detect=True)
    elif _is_first(path, seen) and not (options.detect and wishes.excludes(path)):
        yield from _document(path, unreadable, detect=options.detect)


def _is_first(path: str, seen: set[str]) -> bool:
    """Whether nobody has named the file before, in this way or another."""
    try:
        whole = os.path.abspath(path)
    except OSError:  # somebody has deleted the working directory
        whole = path
    if whole in seen:
        return False
    seen.add(whole)
    return True


def finish(
    options: Options,
    judged: list[tuple[FileReport, Terms]],
    notes: list[str],
    unreadable: list[str],
    *,
    can_fix: bool = True,
) -> int:
    """Write the report, complain of what could not be read, and return the exit status."""
    for report, terms in judged:
        report.fail_on = terms.fail_on
    name = options.output_format or _usual_format(options)
    if can_fix and (options.statistics or name not in FOR_PROGRAMS):
        for report, terms in judged:
            unless_it_fails(lambda: terms.try_fixes(report), report.path, unreadable)  # noqa: B023 - called at once
    reports = [report for report, _ in judged]
    list_unreadable(unreadable)
    if reports or name in FOR_PROGRAMS or not (unreadable or _only_named(options)):
        notes = [*notes, *_of_other_files(reports)]
        whole = Report(reports, __version__, notes=notes, can_fix=can_fix, unreadable=unreadable)
        _write(whole, _statistics(name) if options.statistics else renderer(name), options)
    if unreadable:
        return 2
    return 1 if any(report.counts(finding) for report in reports for finding in report.findings) else 0


def _of_other_files(reports: list[FileReport]) -> Iterator[str]:
    """A note for each file that somebody has named and that is no config at all."""
    for report in reports:
        if report.findings:  # no other file is without any
            from ds_lint.project.discovery import is_something_else
            from ds_lint.source.dialect import hjson_refusal, json_refuses

            document = report.document
            is_readable = not json_refuses(document) or hjson_refusal(document) is None
            if is_readable and is_something_else(document):
                yield f"{shown(report.path)} does not look like a DeepSpeed config; --detect skips such files"


def list_unreadable(unreadable: list[str]) -> None:
    """Say what could not be read, or written."""
    for complaint in unreadable:
        sys.stderr.write(f"ds-lint: {complaint}\n")


def _document(path: str, unreadable: list[str], *, detect: bool) -> Iterator[Document]:
    """The document of a file; none where it is to be detected and holds no config."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        unreadable.append(f"{path}: {error.strerror or error}")
        return
    read = _detected if detect else lint.read
    document = unless_it_fails(lambda: read(data, path), path, unreadable)
    if document is not None:
        yield document


def _detected(data: bytes, path: str) -> Document | None:
    """The document of a file that holds a DeepSpeed config, None for any other file."""
    from ds_lint.project import discovery

    if not discovery.may_be_config(data):
        return None
    document = lint.read(data, path)
    return document if discovery.is_config(document) else None


def _only_named(options: Options) -> bool:
    """Whether files alone were named, and by somebody who did not look into them, as pre-commit does."""
    return options.detect and not any(os.path.isdir(path) for path in options.paths)


def _usual_format(options: Options) -> str:
    """What is written where nobody asks for a format: in a workflow of GitHub, what it shows beside the code."""
    is_log_of_github = os.environ.get("GITHUB_ACTIONS") == "true" and options.output_file is None
    return "github" if is_log_of_github and not options.statistics else "full"


def _write(report: Report, render: Callable[[Report, Terminal], str], options: Options) -> None:
    if options.output_file is None:
        # Standard input is fixed onto standard output.
        stream = sys.stderr if options.fix and STANDARD_INPUT in options.paths else sys.stdout
        print_text(render(report, terminal_of(stream)), stream)
        return
    with open(options.output_file, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(render(report, terminal_of(file)))


def _statistics(name: str) -> Callable[[Report, Terminal], str]:
    from ds_lint.output import statistics  # few want to count

    return statistics.render_json if name == "json" else statistics.render


def print_text(text: str, stream: TextIO) -> None:
    """Write what may hold characters that the stream cannot; they are escaped."""
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that is not UTF-8, or a lone surrogate
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

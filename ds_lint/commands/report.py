"""The report of a run: which format it has, where it goes, and the exit status that follows."""

from __future__ import annotations

import os
import sys
from io import BytesIO, TextIOWrapper

from ds_lint import __version__
from ds_lint.commands.documents import STANDARD_INPUT
from ds_lint.commands.failures import list_unreadable, unless_it_fails
from ds_lint.diagnostics.finding import Related
from ds_lint.diagnostics.report import Complaint, Report
from ds_lint.output import FOR_PROGRAMS, HTML, WITH_TRIED_FIXES, harmlessly, renderer
from ds_lint.output.harmless import harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.output.text import visible, wrap
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TextIO

    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.context import LintContext
    from ds_lint.session.options import Options
    from ds_lint.source.document import Document


def finish(
    options: Options,
    linted: list[tuple[FileReport, LintContext]],
    notes: list[str],
    unreadable: list[Complaint],
    *,
    can_fix: bool = True,
    about_report: tuple[str, ...] = (),
    of_settings: str | None = None,
) -> int:
    """Write the report, list what could not be read, and return the exit status.

    ``about_report`` are notes on what the report has, which are of no use without it. ``of_settings`` is the format
    that the settings choose.
    """
    for report, context in linted:
        report.fail_on = context.fail_on
    _tell_once([report for report, _ in linted])
    name = options.output_format or default_format(options, of_settings)[0]
    others = [text.partition("=")[0] for text in options.report]
    untried = {*FOR_PROGRAMS, HTML}.difference(WITH_TRIED_FIXES)
    if can_fix and (options.statistics or not {name, *others} <= untried):
        _try_fixes(linted, unreadable)
    reports = [report for report, _ in linted]
    is_about_something = bool(reports) or not (unreadable or _only_named(options))
    notes = [*notes, *_of_other_files(reports)]
    whole = Report(
        reports,
        __version__,
        notes=[*notes, *about_report],
        can_fix=can_fix,
        unreadable=unreadable,
        limit=options.limit,
        named=list(options.paths),
    )
    whole.is_quiet = options.quiet
    if others:
        _write_others(whole, options, is_about_something=is_about_something)
    list_unreadable(unreadable)
    if is_about_something or name in FOR_PROGRAMS:
        if (name in FOR_PROGRAMS or options.output_file is not None) and not options.quiet:
            write_notes(notes)  # a person who looks at the log does not see them in the report
        _write(whole, _statistics(name) if options.statistics else renderer(name), options)
        if name == "github" and options.output_file is None and (path := os.environ.get("GITHUB_STEP_SUMMARY")):
            from ds_lint.commands.other_reports import append_summary  # few runs are in a workflow

            if (why := append_summary(whole, path)) is not None:
                write_notes([why])
    if unreadable:
        return 2
    if options.exit_zero:
        return 0
    return 1 if any(report.counts(finding) for report in reports for finding in report.findings) else 0


def _try_fixes(linted: list[tuple[FileReport, LintContext]], unreadable: list[Complaint]) -> None:
    """Find out which fixes would be applied, file by file."""
    files: dict[tuple[str, int], list[tuple[FileReport, LintContext]]] = {}
    for number, one in enumerate(linted):
        document = one[0].document
        is_alone = document.language == "json" or document.is_of_names
        key = (document.path, number + 1) if is_alone else (document.path, 0)
        files.setdefault(key, []).append(one)
    for (path, _), those in files.items():
        reports, context = [report for report, _ in those], those[0][1]
        unless_it_fails(lambda: context.try_fixes(reports), path, unreadable)  # noqa: B023 - called at once


def _tell_once(reports: list[FileReport]) -> None:
    """Leave what several configs have in common to the first of them, and let the finding there name the others.

    That is what is true of the whole project, such as releases that do not work together, and what is wrong with a
    script or a launch that names several configs.
    """
    seen: dict[object, Finding] = {}
    for report in reports:
        kept = []
        for finding in report.findings:
            is_shared = finding.kind == "project" or finding.is_elsewhere
            places = finding.related[:1] if finding.is_elsewhere else finding.related
            what = finding.message if finding.is_elsewhere else finding.subject
            same = finding.code, finding.severity, what, tuple((one.path, one.span) for one in places)
            before = seen.setdefault(same, finding) if is_shared else finding
            if before is finding:
                kept.append(finding)
            elif finding.is_elsewhere and finding.path not in {before.path, *(one.path for one in before.related)}:
                before.related = [*before.related, Related(finding.span, finding.label, finding.path)]
        report.findings = kept


def write_notes(notes: Iterable[str], documents: Sequence[Document] = ()) -> None:
    """Print notes for people to standard error, without the secrets of the documents that they are about."""
    width = terminal_of(sys.stderr).width
    for note in notes:
        text = "\n".join(wrap(f"note: {visible(note)}", width, taken=0, indent=2)) + "\n"
        print_text(harmless(text, documents=documents), sys.stderr)


def _of_other_files(reports: list[FileReport]) -> Iterator[str]:
    """A note for each named file that is not a config at all."""
    for report in reports:
        if report.findings and report.document.kind == "deepspeed" and report.document.has_config:
            from ds_lint.source.dialect import hjson_refusal, json_refuses
            from ds_lint.source.recognition import is_something_else

            document = report.document
            is_readable = not json_refuses(document) or hjson_refusal(document) is None
            if is_readable and is_something_else(document):
                yield f"{shown(report.path)} does not look like a DeepSpeed config; --detect skips such files"


def _only_named(options: Options) -> bool:
    """Whether only files were named, by a program that did not look into them, as pre-commit does."""
    return options.detect and not any(os.path.isdir(path) for path in options.paths)


def default_format(options: Options, of_settings: str | None = None) -> tuple[str, str]:
    """The format without ``--output-format``, and why: that of the settings, if it can show what is wanted.

    In a GitHub workflow it is the one that is shown there beside the code.
    """
    if of_settings is not None:
        from ds_lint.commands.conflicts import COUNTED_IN  # few settings choose one

        if not options.statistics or of_settings in COUNTED_IN:
            return of_settings, "settings"
    is_log_of_github = os.environ.get("GITHUB_ACTIONS") == "true" and options.output_file is None
    return ("github", "GITHUB_ACTIONS") if is_log_of_github and not options.statistics else ("full", "default")


def _write_others(report: Report, options: Options, *, is_about_something: bool) -> None:
    """Write the reports of ``--report``; what cannot be written is a complaint, and the others are written."""
    from ds_lint.commands.other_reports import STANDARD_OUTPUT, reports_of

    for one in reports_of(options.report):
        if not is_about_something and one.format not in (*FOR_PROGRAMS, "markdown"):
            continue
        try:
            if one.path == STANDARD_OUTPUT:
                print_text(_text(report, one.render, terminal_of(sys.stdout)), sys.stdout)
            else:
                _write_file(report, one.render, one.path)
        except OSError as error:
            report.unreadable.append(Complaint(None, f"{one.path}: {error.strerror or error}"))


def _write(report: Report, render: Callable[[Report, Terminal], str], options: Options) -> None:
    if options.output_file is None:
        # Standard input is fixed onto standard output.
        stream = sys.stderr if options.fix and STANDARD_INPUT in options.paths else sys.stdout
        print_text(_text(report, render, terminal_of(stream)), stream)
        return
    _write_file(report, render, options.output_file)


def _write_file(report: Report, render: Callable[[Report, Terminal], str], path: str) -> None:
    from ds_lint.source import replacement  # most reports go to the terminal

    written = TextIOWrapper(BytesIO(), "utf-8")
    text = _text(report, render, terminal_of(written))
    replacement.write(path, text.encode(errors="backslashreplace"), is_report=True)


def _text(report: Report, render: Callable[[Report, Terminal], str], terminal: Terminal) -> str:
    """The report as text; a quiet one without findings is empty."""
    text = render(report, terminal)
    if not report.is_quiet:
        return text
    text = text.strip("\n")
    return f"{text}\n" if text else ""


def _statistics(name: str) -> Callable[[Report, Terminal], str]:
    from ds_lint.output import statistics  # few runs count

    return harmlessly(statistics.render_json if name == "json" else statistics.render, name)


def print_text(text: str, stream: TextIO) -> None:
    """Write what may hold characters that the stream cannot; they are escaped."""
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that is not UTF-8, or a lone surrogate
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

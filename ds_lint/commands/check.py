"""``ds-lint check``: judge configs and report."""

from __future__ import annotations

import os
import sys

from ds_lint import __version__, linting
from ds_lint.choice import UnknownRelease, choose
from ds_lint.finding import SEVERITIES
from ds_lint.output import renderer
from ds_lint.output.report import Report
from ds_lint.output.terminal import terminal_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from ds_lint.choice import Choice
    from ds_lint.knowledge import Target
    from ds_lint.output.report import FileReport
    from ds_lint.rule import Rule
    from ds_lint.source.document import Document

STANDARD_INPUT = "-"


class Options:
    """What the command line of ``check`` asks for."""

    __slots__ = (
        "detect",
        "fail_on",
        "ignore",
        "output_file",
        "output_format",
        "paths",
        "select",
        "stack",
        "stdin_filename",
        "verbose",
        "versions",
        "world_size",
    )

    def __init__(
        self,
        paths: list[str],
        *,
        stack: str | None = None,
        versions: dict[str, str] | None = None,
        world_size: int | None = None,
        select: list[str] | None = None,
        ignore: list[str] | None = None,
        output_format: str = "full",
        output_file: str | None = None,
        stdin_filename: str | None = None,
        detect: bool = False,
        fail_on: str = "warning",
        verbose: bool = False,
    ) -> None:
        self.paths = paths or ["."]
        self.stack = stack
        self.versions = versions or {}  # by library, what the flags say
        self.world_size = world_size
        self.verbose = verbose
        self.select = select
        self.ignore = ignore
        self.output_format = output_format
        self.output_file = output_file
        self.stdin_filename = stdin_filename
        self.detect = detect
        self.fail_on = fail_on


def check(options: Options) -> int:
    """Judge, print, and return the exit status."""
    rules = None
    if options.select or options.ignore:
        from ds_lint.commands.selection import select

        rules = select(options.select, options.ignore)
    run = _Run(options, rules)
    try:
        reports = list(run.reports())
    except UnknownRelease as error:
        sys.stderr.write(f"ds-lint: {error}\n")
        return 2
    for complaint in run.unreadable:
        sys.stderr.write(f"ds-lint: {complaint}\n")
    if reports or not run.unreadable or options.output_format == "json":
        _write(Report(reports, __version__, notes=run.notes()), options)
    if run.unreadable:
        return 2
    return 1 if _fails(reports, options.fail_on) else 0


class _Run:
    """The files of one call: each is judged by the releases that its directory uses."""

    __slots__ = ("_choices", "_options", "_rules", "unreadable")

    def __init__(self, options: Options, rules: list[Rule] | None) -> None:
        self._options = options
        self._rules = rules
        self._choices: dict[str, Choice] = {}
        self.unreadable: list[str] = []

    def reports(self) -> Iterator[FileReport]:
        """The report on every file that was asked for, or that holds a config."""
        for path in self._options.paths:
            if path == STANDARD_INPUT:
                name = self._options.stdin_filename or "<stdin>"
                yield self._judged(linting.read(sys.stdin.buffer.read(), name))
            elif os.path.isdir(path):
                from ds_lint.discover import json_files

                def complain(error: OSError) -> None:
                    self.unreadable.append(f"{error.filename}: {error.strerror}")

                for found in json_files(path, complain):
                    yield from self._report(found, detect=True)
            else:
                yield from self._report(path, detect=self._options.detect)

    def notes(self) -> list[str]:
        """What a person should know beside the findings; with ``--verbose`` also who says which releases are used."""
        notes = [note for choice in self._choices.values() for note in choice.notes]
        if self._options.verbose:
            for directory, choice in self._choices.items():
                where = f"{directory}: " if len(self._choices) > 1 else ""
                notes.append(f"{where}judged by {choice}")
        return list(dict.fromkeys(notes))

    def _report(self, path: str, *, detect: bool) -> Iterator[FileReport]:
        """The report on a file; none where it is to be detected and holds no config."""
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            self.unreadable.append(f"{path}: {error.strerror or error}")
            return
        document = linting.read(data, path) if not detect else _detected(data, path)
        if document is not None:
            yield self._judged(document)

    def _judged(self, document: Document) -> FileReport:
        options = self._options
        choice = self._choice(os.path.dirname(document.path) or os.curdir)

        def judge(target: Target) -> FileReport:
            return linting.lint_document(
                document, target=target, stack=options.stack, world_size=options.world_size, rules=self._rules
            )

        if choice.is_range:
            from ds_lint.ranges import judged

            report = judged(choice, judge)
        else:
            report = judge(choice.newest)
        report.sources, report.ranges = choice.origins, choice.ranges
        return report

    def _choice(self, directory: str) -> Choice:
        if directory not in self._choices:
            self._choices[directory] = choose(directory, self._options.versions)
        return self._choices[directory]


def _detected(data: bytes, path: str) -> Document | None:
    """The document of a file that holds a DeepSpeed config, None for any other file."""
    from ds_lint import discover

    if not discover.may_be_config(data):
        return None
    document = linting.read(data, path)
    return document if discover.is_config(document) else None


def _fails(reports: list[FileReport], fail_on: str) -> bool:
    counting = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return any(finding.severity in counting for report in reports for finding in report.findings)


def _write(report: Report, options: Options) -> None:
    render = renderer(options.output_format)
    if options.output_file is None:
        _print(render(report, terminal_of(sys.stdout)), sys.stdout)
        return
    with open(options.output_file, "w", encoding="utf-8", errors="backslashreplace", newline="") as file:
        file.write(render(report, terminal_of(file)))


def _print(text: str, stream: TextIO) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError:  # a terminal that is not UTF-8, or a lone surrogate
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

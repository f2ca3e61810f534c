"""``ds-lint check --fix``, ``--fix-only`` and ``--diff``: apply the fixes to the files, or show them."""

from __future__ import annotations

import os
import sys
from difflib import unified_diff

from ds_lint.commands import streams
from ds_lint.commands.documents import (
    STANDARD_INPUT,
    documents,
    is_input_forbidden,
    linted_names,
    standard_input_name,
)
from ds_lint.commands.failures import list_unreadable, unless_it_fails
from ds_lint.commands.report import print_text, write_notes
from ds_lint.commands.rewriting import about_elsewhere, is_elsewhere, rewritten
from ds_lint.fixes.application import ALL
from ds_lint.output.harmless import harmless
from ds_lint.output.summary import not_fixed
from ds_lint.output.terminal import ADDED, REMOVED, STRONG, terminal_of
from ds_lint.output.text import counted, visible
from ds_lint.source import replacement
from ds_lint.source.documents import within_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.report import Complaint, FileReport
    from ds_lint.output.terminal import Terminal
    from ds_lint.session.context import LintContext
    from ds_lint.session.launched import LaunchingProject
    from ds_lint.session.options import Options
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document


def fix(options: Options, session: Session, unreadable: list[Complaint]) -> list[tuple[FileReport, LintContext]]:
    """Fix every file, and standard input onto standard output; the reports are on what is left."""
    linted = []
    changed: dict[str, Document] = {}  # by file, to which several paths may lead: a config in what it has become
    if STANDARD_INPUT in options.paths and is_input_forbidden(options, session):
        streams.write_standard_output(streams.standard_input().read())
    projects: list[LaunchingProject] = []
    found = documents(options, session, unreadable, projects)
    for path, read, context in _files(found, session):
        configs = _now(read, changed)
        reports = _fixed(configs, context, unreadable)
        if not reports:
            continue
        document, fixed = configs[0], reports[-1].document
        if path == STANDARD_INPUT:
            if document.is_utf8:
                changed[_file(document)] = fixed
        elif any(report.fixed for report in reports):
            if is_elsewhere(document.path, options.paths):
                session.say(about_elsewhere(document.path))
            elif rewritten(document.path, document.file_text, fixed.file_text, unreadable):
                changed[_file(document)] = fixed
            if _file(document) not in changed:  # the file is as it was
                reports = [context.lint(config, context.rules) for config in configs]
        linted += [(report, context) for report in reports]
    of_input = changed.get(os.path.realpath(standard_input_name(options)))
    if STANDARD_INPUT in options.paths and of_input is not None:
        streams.write_standard_output(of_input.file_text.encode())
    names = linted_names(options, found, projects, session, unreadable)
    return [*linted, *(_with_fixed_names(*one, changed, options, unreadable) for one in names)]


def _with_fixed_names(
    report: FileReport,
    context: LintContext,
    changed: dict[str, Document],
    options: Options,
    unreadable: list[Complaint],
) -> tuple[FileReport, LintContext]:
    """The report on a file after the fixes of its names: none of a file whose configs they have changed before."""
    document = report.document
    reports = _fixed_names(document, context, options, unreadable) if _file(document) not in changed else None
    if reports and rewritten(document.path, document.file_text, reports[0].document.file_text, unreadable):
        return reports[0], context
    return report, context


def finish(options: Options, reports: list[FileReport], notes: list[str], unreadable: list[Complaint]) -> int:
    """Print how many findings are fixed, and which fixes were not applied, but nothing else; return the exit status."""
    list_unreadable(unreadable)
    number = sum(len(report.fixed or ()) for report in reports)
    if not options.quiet:
        write_notes(notes)
        lines = [line for report in reports for line in not_fixed(report)]
        lines += [f"Fixed {counted(number, 'finding')}."] if number else []
        stream = sys.stderr if STANDARD_INPUT in options.paths else sys.stdout
        print_text(harmless("".join(f"{line}\n" for line in lines)), stream)
    return 2 if unreadable else 0


def diff(options: Options, session: Session, unreadable: list[Complaint]) -> int:
    """Print what ``fix`` would change; the exit status is 1 if there is anything."""
    number = 0
    left: list[str] = []
    before: dict[str, Document] = {}  # by file, as it was and as it would be
    after: dict[str, Document] = {}
    projects: list[LaunchingProject] = []
    found = documents(options, session, unreadable, projects)
    for _, read, context in _files(found, session):
        reports = _fixed(_now(read, after), context, unreadable)
        if not reports:
            continue
        if any(report.fixed for report in reports) and is_elsewhere(read[0].path, options.paths):
            session.say(about_elsewhere(read[0].path))
            continue
        left += [line for report in reports for line in not_fixed(report)]
        before.setdefault(_file(read[0]), read[0])
        after[_file(read[0])] = reports[-1].document
        number += sum(len(report.fixed or ()) for report in reports)
    for report, context in linted_names(options, found, projects, session, unreadable):
        file = _file(report.document)
        reports = _fixed_names(report.document, context, options, unreadable) if file not in after else None
        if reports:
            before[file], after[file] = report.document, reports[0].document
            number += len(reports[0].fixed or ())
    changes = "".join(_masked(_difference(before[file], after[file]), before[file]) for file in before)
    list_unreadable(unreadable)
    if not options.quiet:
        write_notes(session.notes)
    if options.output_file is None:
        print_text(_printed(changes, left), sys.stdout)
    else:
        replacement.write(options.output_file, changes.encode(), is_report=True)
    if not options.quiet:
        left += [f"{counted(number, 'finding')} would be fixed."] if number else []
        sys.stderr.writelines(harmless(f"{line}\n") for line in left)
    if unreadable:
        return 2
    return 1 if changes and not options.exit_zero else 0


def _masked(changes: str, document: Document) -> str:
    """A diff without secrets. ``patch`` refuses a hunk that would change a line with a mask, so none is written."""
    if not changes:
        return ""
    from ds_lint.output import secrets

    return secrets.masked(changes, secrets.secrets_in(document))


def _printed(changes: str, left: list[str]) -> str:
    """A diff as it is printed: a patch as long as nothing in it could do harm to a terminal or in a log of CI."""
    painted = _painted(changes, terminal_of(sys.stdout))
    if painted != changes:
        return harmless(painted)
    shown = harmless("".join(_harmless_line(line) for line in _lines(changes)))
    if shown != changes:
        left.append(
            "note: the diff is printed without control characters and CI commands; --output-file writes a patch"
        )
    return shown


def _harmless_line(line: str) -> str:
    text = line.removesuffix("\n").removesuffix("\r")
    return _shown(text) + line[len(text) :]


def _files(found: list[tuple[str, Document]], session: Session) -> Iterator[tuple[str, list[Document], LintContext]]:
    """The configs of every file with the path of the command line, and the terms that they are linted on."""
    files: dict[str, tuple[str, list[Document]]] = {}  # by path
    for path, document in found:
        files.setdefault(document.path, (path, []))[1].append(document)
    for path, configs in files.values():
        yield path, configs, session.context(configs[0].path)


def _file(document: Document) -> str:
    """The file that a path leads to."""
    return os.path.realpath(document.path)


def _now(configs: list[Document], changed: dict[str, Document]) -> list[Document]:
    """The configs in the file that fixes under another path have left."""
    other = changed.get(_file(configs[0]))
    if other is None:
        return configs
    return [within_file(config, other.file_text) or config for config in configs]


def _fixed(configs: list[Document], context: LintContext, unreadable: list[Complaint]) -> list[FileReport] | None:
    """The reports on what the fixes make of configs; of those that were not applied, whether unsafe ones help."""

    def fixed() -> list[FileReport]:
        reports = context.fixed(configs, context.safeties)
        if any(report.unfixed for report in reports) and not context.unsafe_fixes:
            for report, by_all in zip(reports, context.fixed(configs, ALL), strict=True):
                problems = {(finding.code, finding.key) for finding in by_all.findings}
                for unfixed in report.unfixed:
                    fixed_too = {(unfixed.finding.code, unfixed.finding.key), *unfixed.brings}
                    unfixed.is_fixed_by_all = not fixed_too & problems
        return reports

    return unless_it_fails(fixed, configs[0].path, unreadable)


def _fixed_names(
    document: Document, context: LintContext, options: Options, unreadable: list[Complaint]
) -> list[FileReport] | None:
    """The report on what the fixes make of names that lead nowhere; None if they change nothing in the file."""
    if is_elsewhere(document.path, options.paths) or not _is_as_read(document):
        return None
    reports = _fixed([document], context, unreadable)
    return reports if reports and reports[0].fixed else None


def _is_as_read(document: Document) -> bool:
    """Whether a file has the text of the document, byte for byte: not if its lines end otherwise."""
    with open(document.path, "rb") as file:
        return file.read() == document.file_text.encode()


def _difference(before: Document, after: Document) -> str:
    """A unified diff that ``patch`` takes, carriage returns and a missing end of the last line included."""
    lines = unified_diff(_lines(before.file_text), _lines(after.file_text), before.path, after.path)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _painted(changes: str, terminal: Terminal) -> str:
    """The same in colours, for people; without them it is a patch, and stays as it is."""
    if not terminal.colour:
        return changes
    styles = {"-": REMOVED, "+": ADDED, "@": STRONG}
    lines = (line.rstrip("\r\n") for line in _lines(changes))
    return "".join(
        f"{terminal.paint(_shown(line), styles[line[0]]) if line[:1] in styles else _shown(line)}\n" for line in lines
    )


def _shown(line: str) -> str:
    return "\t".join(visible(part) for part in line.split("\t"))


def _lines(text: str) -> list[str]:
    """The lines with their ends; only a line feed ends one, as for ``patch``."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

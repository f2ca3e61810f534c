"""``ds-lint check --add-ignore``: suppress findings with comments if a file may have them, else in the settings."""

from __future__ import annotations

import os
import sys
from json import dumps

from ds_lint.commands.failures import list_unreadable, unless_it_fails
from ds_lint.commands.report import print_text, write_notes
from ds_lint.commands.rewriting import about_elsewhere, is_elsewhere, rewritten
from ds_lint.diagnostics.report import Complaint
from ds_lint.fixes.suppressing import suppress
from ds_lint.output.harmless import harmless
from ds_lint.output.text import counted, shown_path, visible
from ds_lint.project.globs import literal, relative
from ds_lint.settings import writing
from ds_lint.settings.nearest import NAMES, user_file
from ds_lint.settings.record import SHARED
from ds_lint.source import replacement
from ds_lint.source.documents import again, within_file
from ds_lint.source.files import bytes_of
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Finding
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.session.context import LintContext
    from ds_lint.session.options import Options
    from ds_lint.settings.record import Settings
    from ds_lint.settings.writing import Ignores
    from ds_lint.source.document import Document

    Place = tuple[str, int]  # of a finding: its code and its offset in the text as it was read


def add(
    options: Options, linted: list[tuple[FileReport, LintContext]], notes: list[str], unreadable: list[Complaint]
) -> int:
    """Write the suppressions, print how many there are, and return the exit status."""
    files = _Commented(options.paths, notes, unreadable)
    by_settings: dict[str, tuple[str, Ignores]] = {}  # with the setting
    for report, context in linted:
        suppressed = files.suppressed(report, context)
        if left := [one for one in report.findings if _place(one) not in suppressed]:
            path, directory, setting = _place_in_settings(report.path, context.settings, notes)
            if (pattern := _pattern(report.path, directory, unreadable)) is not None:
                _, ignores = by_settings.setdefault(path, (setting, {}))
                ignores[pattern] = sorted({*ignores.get(pattern, ()), *_names(left)})
    added = []
    if files.comments:
        added = [f"{counted(sum(files.comments.values()), 'comment')} in {counted(len(files.comments), 'file')}"]
    for path, (setting, ignores) in by_settings.items():
        if _with_ignores(path, ignores, setting, unreadable):
            number = sum(map(len, ignores.values()))
            added.append(f"{counted(number, 'rule')} to {setting} in {shown_path(path)}")
    list_unreadable(unreadable)
    if not options.quiet:
        write_notes(notes)
        if added:
            print_text(harmless(f"Added {' and '.join(added)}.\n"), sys.stdout)
        elif not any(report.findings for report, _ in linted):
            sys.stdout.write("No findings to suppress.\n")
    return 2 if unreadable else 0


class _Commented:
    """The files that get comments: several paths may lead to one, and one may hold several configs."""

    def __init__(self, paths: list[str], notes: list[str], unreadable: list[Complaint]) -> None:
        self.comments: dict[str, int] = {}  # by file, how many were added or extended
        self._paths = paths
        self._notes = notes
        self._unreadable = unreadable
        self._texts: dict[str, str] = {}  # of the files that were changed
        self._suppressed: dict[tuple[str, int], set[Place]] = {}  # by file and config

    def suppressed(self, report: FileReport, context: LintContext) -> set[Place]:
        """What comments suppress of the findings of a config, once they are written; nothing if it may have none."""
        file = os.path.realpath(report.path)
        config = file, report.document.index
        if config not in self._suppressed:
            self._suppressed[config] = self._with_comments(file, report, context)
        return self._suppressed[config]

    def _with_comments(self, file: str, report: FileReport, context: LintContext) -> set[Place]:
        document: Document | None = report.document
        if not report.findings or not report.document.is_utf8 or not context.takes_comments(report):
            return set()
        if is_elsewhere(report.path, self._paths):
            self._notes.append(about_elsewhere(report.path))
            return set()
        before = self._texts.get(file, report.document.file_text)
        if file in self._texts:
            document = within_file(report.document, before)
        if document is None:
            return set()
        now = [(one, one) for one in report.findings]
        if file in self._texts:
            now = _moved(report.findings, document, context)
        done = unless_it_fails(
            lambda: suppress(document, [one for _, one in now], lambda text: context.lint(text, context.rules)),
            report.path,
            self._unreadable,
        )
        changed = again(document, done.text) if done is not None and done.comments else None
        if done is None or changed is None:
            return set()
        if not rewritten(report.path, before, changed.file_text, self._unreadable):
            return {_place(one) for one in report.findings}  # a file that cannot be written gets no settings either
        self._texts[file] = changed.file_text
        self.comments[file] = self.comments.get(file, 0) + done.comments
        suppressed = {id(one) for one in done.findings}
        return {_place(one) for one, moved in now if id(moved) in suppressed}


def _place(finding: Finding) -> Place:
    return finding.code, finding.span.start


def _moved(findings: list[Finding], document: Document, context: LintContext) -> list[tuple[Finding, Finding]]:
    """Each finding, and the same finding where comments about other configs of the file have moved it."""
    left = list(context.lint(document, context.rules).findings)
    pairs = []
    for finding in findings:
        same = next((one for one in left if (one.code, one.key) == (finding.code, finding.key)), None)
        if same is not None:
            left.remove(same)
            pairs.append((finding, same))
    return pairs


def _names(findings: list[Finding]) -> list[str]:
    return sorted({finding.name for finding in findings})


def _place_in_settings(path: str, settings: Settings, notes: list[str]) -> tuple[str, str, str]:
    """The settings file for a config, the folder that its paths are relative to, and the setting that adds to it.

    The settings of the user are for all projects; those of this one start in a new file.
    """
    if not settings.path or settings.path == user_file():
        new = _new_settings(path)
        keep = f"add extend = {dumps(settings.path)} to {new} to keep it"
        if settings.path and (note := f"{shown(settings.path)} no longer counts here; {keep}") not in notes:
            notes.append(note)
        return new, os.path.dirname(new), writing.NAME
    own = next(layer for layer in settings.layers if layer.path == settings.path)
    is_own = writing.NAME in own.values or not settings.names(writing.NAME)
    return settings.path, settings.directory, writing.NAME if is_own else writing.ADDED


def _pattern(path: str, directory: str, unreadable: list[Complaint]) -> str | None:
    """The pattern in a settings file that means a config; None if its name cannot be written there."""
    pattern = literal(relative(path, directory))
    try:
        pattern.encode()
    except UnicodeEncodeError:
        reason = f"its name is not UTF-8, so {writing.NAME} cannot contain it; rename the file"
        unreadable.append(Complaint(path, reason))
        return None
    return pattern


def _new_settings(path: str) -> str:
    """Where settings for a config begin that has none: the working directory, or its own if that is elsewhere."""
    here = os.getcwd()
    folder = "" if os.path.abspath(path).startswith(os.path.join(here, "")) else os.path.dirname(path)
    shared = os.path.join(folder, SHARED)
    return shared if os.path.isfile(shared) else os.path.join(folder, NAMES[0])


def _with_ignores(path: str, ignores: Ignores, setting: str, unreadable: list[Complaint]) -> bool:
    """Whether the settings file, made if there is none, now ignores these rules."""
    try:
        before = bytes_of(path).decode() if os.path.lexists(path) else ""
        after = writing.with_ignores(before, path, ignores, setting)
        if after is None:
            entries = ", ".join(writing.entry(pattern, rules) for pattern, rules in ignores.items())
            reason = f"cannot be changed automatically; add to {setting}: {visible(entries)}"
            unreadable.append(Complaint(shown(path), reason))
            return False
        if os.path.lexists(path):
            return rewritten(shown(path), before, after, unreadable)
        replacement.create(path, after.encode())
    except (OSError, UnicodeDecodeError) as error:
        unreadable.append(Complaint(shown(path), f"cannot be written: {getattr(error, 'strerror', None) or error}"))
        return False
    return True

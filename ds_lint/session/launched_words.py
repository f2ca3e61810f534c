"""The launches of a project with words that their launcher or script may refuse, as documents for the rules."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.project.launches import may_be_script, read_launches
from ds_lint.project.of_tests import is_of_tests
from ds_lint.session.launched import LaunchingProject
from ds_lint.session.launcher_words import launcher_words
from ds_lint.session.reached import project_of
from ds_lint.source.absent_name import document_of
from ds_lint.source.command_text import span_in_command
from ds_lint.source.script_words import ScriptWords

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.project.launches import LaunchFile, UnlessItFails
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document, SyntaxIssue


def documents_with_launched_words(
    paths: Iterable[str],
    projects: Sequence[LaunchingProject],
    session: Session,
    unless_it_fails: UnlessItFails,
) -> list[Document]:
    """The files with such launches: those of the projects, and those among these paths."""
    reader = _LaunchReader(session)
    for project in projects:
        for facts, file in project.seen:
            unless_it_fails(lambda: reader.add(facts, file), file.path)  # noqa: B023 - called at once
    for path in paths:
        if os.path.isfile(path) and may_be_script(os.path.basename(path)):
            unless_it_fails(lambda: reader.add_file(path), path)  # noqa: B023 - called at once
    return reader.documents()


class _LaunchReader:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.found: dict[str, tuple[Document, list[SyntaxIssue]]] = {}
        self.known: set[tuple[str, int, object]] = set()

    def documents(self) -> list[Document]:
        """The files, each with its launches."""
        return [document_of(path, one.text, issues, one.notebook) for path, (one, issues) in self.found.items()]

    def add_file(self, path: str) -> None:
        """Add the launches of a file that the command line names."""
        if self.session.forbids(path, is_folder=False):
            return
        directory = project_of(path)
        if (file := read_launches(path, directory)) is not None:
            for facts in LaunchingProject(directory).launches(file):
                self.add(facts, file)

    def add(self, facts: LaunchFacts, file: LaunchFile) -> None:
        """Add what a launch gives its launcher, and its script, if what these take is known."""
        document = facts.document
        if is_of_tests(file.path) or not document.text:
            return
        for issue in (launcher_words(facts), _script_words(facts)):
            if issue is None or (key := (document.path, facts.launch.line, issue.says)) in self.known:
                continue
            self.known.add(key)
            self.found.setdefault(document.path, (document, []))[1].append(issue)


def _script_words(facts: LaunchFacts) -> ScriptWords | None:
    """The words of a script whose parser is known."""
    launch, script = facts.launch, facts.script
    line = script.command_line if script is not None else None
    if line is None or launch.record is None or launch.cwd is None or launch.only_file:
        return None
    return ScriptWords(
        span_in_command(facts.document.text, launch.line, re.compile(r"(?!)")),
        launch.script or "",
        launch.line,
        tuple(launch.flags),
        line,
        is_whole=not launch.loose and not launch.cut_off,
    )

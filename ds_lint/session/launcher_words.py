"""The launches of a project with options that a release of the launcher may refuse, as documents for the rules."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.knowledge import tables
from ds_lint.launches.refused_options import refused_options
from ds_lint.project.launches import may_be_script, read_launches
from ds_lint.session.launched import LaunchingProject
from ds_lint.session.reached import project_of
from ds_lint.source.absent_name import document_of
from ds_lint.source.launcher_words import LauncherWords

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.project.launches import LaunchFile, UnlessItFails
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

_OF_TESTS = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|conftest\.py$|[^/]*_test\.py$)")
_PARTITIONS = re.compile(r"deepspeed|fsdp|fully_sharded|accelerate", re.IGNORECASE)


def documents_with_launcher_words(
    paths: Iterable[str],
    projects: Sequence[LaunchingProject],
    session: Session,
    unless_it_fails: UnlessItFails,
) -> list[Document]:
    """The files with such launches: those of the projects, and those among these paths."""
    found: dict[str, tuple[Document, dict[tuple[int, object], LauncherWords]]] = {}

    def add(facts: LaunchFacts, file: LaunchFile) -> None:
        issue = _words(facts)
        if issue is not None and not _OF_TESTS.search(file.path):
            _, issues = found.setdefault(facts.document.path, (facts.document, {}))
            issues.setdefault((facts.launch.line, issue.options), issue)

    def add_file(path: str) -> None:
        directory = project_of(path)
        if (file := read_launches(path, directory)) is not None:
            for facts in LaunchingProject(directory).launches(file):
                add(facts, file)

    for project in projects:
        for facts, file in project.seen:
            unless_it_fails(lambda: add(facts, file), file.path)  # noqa: B023 - called at once
    for path in paths:
        is_script = os.path.isfile(path) and may_be_script(os.path.basename(path))
        if is_script and not session.forbids(path, is_folder=False):
            unless_it_fails(lambda: add_file(path), path)  # noqa: B023 - called at once
    return [
        document_of(path, document.text, list(issues.values()), document.notebook)
        for path, (document, issues) in found.items()
    ]


def _words(facts: LaunchFacts) -> LauncherWords | None:
    """The words of a launch, if some release refuses one of them."""
    launch = facts.launch
    known = tables.load("launchers").get(launcher := launch.launcher)
    if known is None or not launch.own_words or launch.cut_off:
        return None
    always = {name: takes for name, takes in known["options"].items() if name not in known.get("only", {})}
    if not any(refused_options(launch.own_words, always, abbreviates=launcher != "accelerate")):
        return None
    words = " ".join(word for word in (*launch.command, *launch.flags) if word)
    script = facts.script_document.content if facts.script_document is not None else ""
    if launcher == "torchrun" and not _PARTITIONS.search(f"{words} {script}"):
        return None
    names = dict.fromkeys(word.partition("=")[0] for word in launch.own_words if word is not None and word[:1] == "-")
    options = [(name, facts.flag(name.lstrip("-"))) for name in names if name.strip("-")]
    return LauncherWords(facts.place, launcher, launch.own_words, options)

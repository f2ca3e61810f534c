"""The scripts of a project with calls whose keywords a library refuses, as documents for the rules about those."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ds_lint.launches.keyword_calls import MAKES, keyword_calls
from ds_lint.project.discovery import candidates
from ds_lint.project.launches import NOTEBOOK, data_of, read_notebook
from ds_lint.project.of_tests import is_of_tests
from ds_lint.session.launched import LaunchingProject
from ds_lint.session.reached import project_of
from ds_lint.source.absent_name import document_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.project.launches import UnlessItFails
    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

_PARTITIONS = re.compile(r"deepspeed|fsdp|fully_sharded", re.IGNORECASE)  # what makes a script one for ds-lint


def documents_with_keyword_calls(
    paths: Iterable[str],
    projects: Sequence[LaunchingProject],
    session: Session,
    unless_it_fails: UnlessItFails,
) -> list[Document]:
    """The scripts that launches start, and the modules in these folders or among these paths, that train in parts."""
    reader = _KeywordReader(session)
    for project in projects:
        for facts, _ in project.seen:
            unless_it_fails(lambda: reader.add_launched(facts, project), facts.document.path)  # noqa: B023 - called at once
    for path in paths:
        if os.path.isdir(path):
            for module in reader.modules(path):
                unless_it_fails(lambda: reader.add(module, path), module)  # noqa: B023 - called at once
        elif path.endswith((".py", NOTEBOOK)) and os.path.isfile(path) and not session.forbids(path, is_folder=False):
            unless_it_fails(lambda: reader.add(path, project_of(path)), path)  # noqa: B023 - called at once
    return list(reader.found.values())


class _KeywordReader:
    def __init__(self, session: Session) -> None:
        self.session = session
        self.found: dict[str, Document] = {}
        self._seen: set[str] = set()

    def modules(self, directory: str) -> Iterator[str]:
        """The modules and notebooks below a folder."""
        for path in candidates(
            directory,
            lambda _: None,
            leaves_out=self.session.leaves_out,
            respects_gitignore=self.session.respects_gitignore(directory),
        ):
            if path.endswith((".py", NOTEBOOK)):
                yield path

    def add_launched(self, facts: LaunchFacts, project: LaunchingProject) -> None:
        """Add the script of a launch that DeepSpeed, FSDP or Accelerate is a part of."""
        document, launch = facts.script_document, facts.launch
        words = " ".join(one for one in (launch.launcher, *launch.command, *launch.flags) if one)
        if document is None or not (launch.launcher == "accelerate" or _PARTITIONS.search(words)):
            return
        self.add(document.path, project.directory, is_wanted=True)

    def add(self, path: str, directory: str, *, is_wanted: bool = False) -> None:
        """Add a module, if it is one that trains with partitions or is told to."""
        whole = os.path.realpath(path)
        data = data_of(path) if whole not in self._seen and not is_of_tests(path) else None
        if data is None:
            return
        notebook = None
        if path.endswith(NOTEBOOK):
            reading = read_notebook(path, directory)
            if reading is None:
                return
            notebook, text = reading.notebook, reading.python
            shown = notebook.text
        else:
            text = shown = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
        if not (is_wanted or _PARTITIONS.search(text)) or MAKES.search(text) is None:
            return
        self._seen.add(whole)
        calls = keyword_calls(text, "" if notebook is not None else path, LaunchingProject(directory).module_at)
        if calls:
            self.found[whole] = document_of(path, shown, calls, notebook)

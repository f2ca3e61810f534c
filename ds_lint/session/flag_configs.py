"""The configs that commands of scripts make from their flags, as documents at these commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.launches.flag_config import MARKS, document_of_flags, has_own_config
from ds_lint.project.launches import may_be_script, read_launches
from ds_lint.session.launched import LaunchingProject
from ds_lint.source.files import ON_DISK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.source.document import Document

_MOST_BYTES = 500_000


def flag_configs(path: str, directory: str) -> Iterator[Document]:
    """The configs of the commands in a script of a project, each once."""
    if path.endswith(".py") or not may_be_script(path) or not _has_mark(path):
        return
    file = read_launches(path, directory)
    seen: list[object] = []
    for facts in LaunchingProject(directory).launches(file) if file is not None else ():
        document = flag_config(facts)
        if (
            document is not None
            and facts.launch.path == (file.path if file is not None else "")
            and (document.command not in seen)
        ):
            seen.append(document.command)
            document.index, document.path = len(seen) - 1, path
            yield document


def flag_config(facts: LaunchFacts) -> Document | None:
    """The config that a launch makes from its flags; None if it names one, or makes none."""
    return document_of_flags(facts.launch, facts.document) if has_own_config(facts.launch) else None


def _has_mark(path: str) -> bool:
    try:
        data = ON_DISK.bytes_of(path, _MOST_BYTES)
    except OSError:
        return False
    return any(mark in data for mark in MARKS)

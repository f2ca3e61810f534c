"""The configs that commands of scripts make from their flags, as documents at these commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.launches.flag_config import document_of_flags, has_own_config
from ds_lint.project.launches import may_have_flags, read_launches
from ds_lint.session.launched import LaunchingProject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.source.document import Document


def flag_configs(path: str, directory: str) -> Iterator[Document]:
    """The configs of the commands in a script of a project, each once."""
    file = read_launches(path, directory) if may_have_flags(path) else None
    if file is None:
        return
    seen: list[object] = []
    for facts in LaunchingProject(directory).launches(file):
        document = flag_config(facts) if facts.launch.path == file.path else None
        if document is not None and document.command not in seen:
            seen.append(document.command)
            document.index, document.path = len(seen) - 1, path
            yield document


def flag_config(facts: LaunchFacts) -> Document | None:
    """The config that a launch makes from its flags; None if it names one, or makes none."""
    value = facts.recipe.value if facts.recipe is not None else facts.launch.arguments.get
    return document_of_flags(facts.launch, facts.document, value) if has_own_config(facts.launch) else None

"""The DeepSpeed configs that recipes name: found, linted with what the recipes say, and added to what is linted."""

from __future__ import annotations

import os

from ds_lint.facts.training_recipe import TrainingRecipe
from ds_lint.project.references import located
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ds_lint.session.session import Session
    from ds_lint.source.document import Document

    Found = tuple[str, Document]  # the path of the command line that leads to the document


_FILES = ("json", "yaml")  # in documentation, a recipe is an example


def with_named_configs(
    found: Iterable[Found], session: Session, read: Callable[[str], list[Document]]
) -> Iterator[Found]:
    """The documents, and behind each recipe the config that it names; ``read`` reads what was not read before."""
    found = list(found)
    known = {os.path.realpath(document.path): document for _, document in found}
    for given, document in found:
        yield given, document
        if document.kind != "recipe" or document.language not in _FILES:
            continue
        recipe = TrainingRecipe(document)
        if (name := recipe.named) is None or recipe.preset is not None:
            continue
        path = located(name, document.path)
        if path is None:
            if given == document.path:  # a person named it, and waits for an answer
                session.say(
                    f"{shown(document.path)} names {shown(name)}, which is not found near it, so it is not checked"
                )
            continue
        config = known.get(os.path.realpath(path))
        if config is None and not session.excludes(path):
            for config in read(path):
                known[os.path.realpath(path)] = config
                yield given, config
        if config is not None and config.kind == "deepspeed":
            document.named = config
            session.add_material(recipe, config.path)

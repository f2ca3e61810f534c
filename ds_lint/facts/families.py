"""The family of a model that is not at hand: by its name on the Hugging Face Hub, or the class that a script loads."""

from __future__ import annotations

from fnmatch import fnmatchcase

from ds_lint.facts.model import Model
from ds_lint.knowledge import tables


def family_of_name(name: str | None) -> Model | None:
    """A model of which nothing but its type is known; None if its name does not tell that."""
    published = tables.load("families")["published"] if name is not None else {}
    for family, names in published.items():
        if name is not None and any(fnmatchcase(name, one) for one in names):
            return Model(name, {"model_type": family})
    return None


def family_of_class(name: str) -> Model | None:
    """The same by a class of transformers, which makes a model of its own type of whatever it loads."""
    family = tables.load("model_classes")["classes"].get(name)
    return Model(name, {"model_type": family}) if family is not None else None

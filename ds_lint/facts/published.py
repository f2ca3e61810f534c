"""Models that are published under a name, of which ds-lint knows the shapes without a file.

``schemas/published_models.json`` has what the shapes and the activations of each depend on.
"""

from __future__ import annotations

import re

from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject

# What a name has beside the size of the model if it was trained further, or converted, with the same shapes.
_VARIANT = frozenset({"base", "chat", "hf", "instruct", "it", "meta", "pt"})
_SIZE = re.compile(r"(\d+x)?\d+(\.\d+|b\d)?[bm]")  # 7b, 0.5b, 8x7b, 1b1


def published(name: str) -> tuple[str, JsonObject] | None:
    """The published name of a model and its config; None if it is not known.

    The case of letters, the organisation, and words such as ``Instruct`` beside the size make no difference.
    """
    known = tables.load("published_models")
    own = name.rpartition("/")[2].lower()
    found = {one: one for one in known["models"]} | known["also"]
    short = {one.rpartition("/")[2].lower(): meant for one, meant in found.items()}
    if own not in short:
        short = {_without_variant(one): meant for one, meant in short.items()}
        own = _without_variant(own)
    meant = short.get(own)
    return (meant, known["models"][meant]) if meant is not None else None


def _without_variant(name: str) -> str:
    """A name in lower case without the words of its variant, if its size is among the rest."""
    words = name.split("-")
    rest = [word for word in words if word not in _VARIANT]
    return "-".join(rest) if any(_SIZE.fullmatch(word) for word in rest) else name

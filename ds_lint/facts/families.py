"""The family of a model that is not at hand: by its name on the Hugging Face Hub, or the class that a script loads.

A folder, or what others publish, often has the name of the model that it was made of, as ``byt5-base-finetuned``.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from ds_lint.facts.model import Model
from ds_lint.knowledge import tables

_SIZE = re.compile(r"(?:\d+x)?[ae]?\d+(?:\.\d+)?[bm]|mini|small|tiny|base|large|huge|xl|xxl")
_SHORT = 3  # letters of a name that also begins other names, such as T0 and ul2
# What is made of a model and is another one, or is not trained.
_OTHER_KINDS = frozenset({
    "adapter", "adapters", "awq", "classifier", "ct2", "data", "dataset", "encoder", "exl2", "ggml", "gguf", "gptq",
    "lora", "mlx", "onnx", "qlora", "reranker", "tokenizer", "vocab",
})  # fmt: skip
# Folders within that of a model: what huggingface_hub and the Trainer make, and common names.
_WITHIN = re.compile(r"[0-9a-f]{40}|snapshots|checkpoint-\d+|best|final|hf|last|latest|main|models?|output|pytorch|")


def family_of_name(name: str | None) -> Model | None:
    """A model of which nothing but its type is known; None if its name does not tell that."""
    if name is None:
        return None
    known = tables.load("families")["published"]
    lower = name.lower()
    for family, patterns in known.items():
        if any(fnmatchcase(lower, one.lower()) for one in patterns):
            return Model(name, {"model_type": family})
    own = _own_name(name)
    if _OTHER_KINDS.isdisjoint(_words(own.lower())):
        for family, patterns in known.items():
            if any(_is_made_of(own, one.rpartition("/")[2]) for one in patterns):
                return Model(name, {"model_type": family})
    return None


def family_of_class(name: str) -> Model | None:
    """The same by a class of transformers, which makes a model of its own type of whatever it loads."""
    family = tables.load("model_classes")["classes"].get(name)
    return Model(name, {"model_type": family}) if family is not None else None


def _own_name(name: str) -> str:
    """The part of a path that names the model; ``models--google--t5-base`` is a folder of huggingface_hub's cache."""
    parts = re.split(r"[/\\]", name)
    own = next((part for part in reversed(parts) if not _WITHIN.fullmatch(part.lower())), "")
    return own.rpartition("--")[2]


def _is_made_of(own: str, published: str) -> bool:
    """Whether a name begins with a published one, or with a pattern of some and has the size of a model."""
    stem, star, _ = published.partition("*")
    if not own.lower().startswith(stem.lower()):
        return False
    rest = own[len(stem) :]
    if not star:
        return own == stem or (len(stem) > _SHORT and rest[:1] in ("", "-", "_", "."))
    goes_on = not rest or stem[-1] in "-_x" or rest[0] in "-_."
    return goes_on and any(_SIZE.fullmatch(word) for word in _words(own.lower()))


def _words(name: str) -> list[str]:
    return re.split(r"[-_]", name)

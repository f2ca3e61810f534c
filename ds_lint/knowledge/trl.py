"""The classes of trl that arguments are read into, as one release has them."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.stacks import records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import StackFacts

TRAINING_ARGUMENTS = "TrainingArguments"  # of transformers, whose fields are in its own store
_known: dict[str, TrlClasses] = {}


class TrlClass:
    """A class with its fields and those of its bases.

    ``sets`` are those that it sets itself, to what does not show; ``is_training`` says that transformers' are among the
    bases.
    """

    __slots__ = ("fields", "is_exported", "is_training", "sets")

    def __init__(
        self, fields: dict[str, StackFacts], sets: frozenset[str], *, is_exported: bool, is_training: bool
    ) -> None:
        self.fields = fields
        self.sets = sets
        self.is_exported = is_exported
        self.is_training = is_training


TrlClasses = dict[str, TrlClass]


def class_called(full_name: str) -> str:
    """The name in the store of what a module calls ``trl.trainer.sft_config.SFTConfig``."""
    parts = full_name.split(".")
    if parts[:2] == ["trl", "experimental"] and len(parts) > 3:
        return ".".join([*parts[1:3], parts[-1]])
    return parts[-1]


def releases() -> list[str]:
    """The releases of the store, oldest first."""
    return tables.load("trl")["releases"]


def classes(release: str) -> TrlClasses:
    """Every class that a release of the store has, by its name there."""
    if release not in _known:
        store = tables.load("trl")
        own: dict[str, dict[str, StackFacts]] = {}
        for name, facts in records(store, "fields", release).items():
            cls, _, field = name.rpartition(".")
            own.setdefault(cls, {})[field] = facts
        found: TrlClasses = {}
        declared = records(store, "classes", release)
        for name in declared:
            _add(name, declared, own, found)
        _known[release] = found
    return _known[release]


def is_training(name: str) -> bool | None:
    """Whether a class is one of training arguments in some release; None if no release of the store has it."""
    found = None
    for release in reversed(releases()):  # the newest release has most of them
        if (known := classes(release).get(name)) is not None:
            if known.is_training:
                return True
            found = False
    return found


def _add(
    name: str, declared: dict[str, StackFacts], own: dict[str, dict[str, StackFacts]], found: TrlClasses
) -> TrlClass | None:
    if name not in found and name in declared:
        fields: dict[str, StackFacts] = {}
        sets = frozenset(declared[name].get("sets", ()))
        is_training = False
        for base in reversed(declared[name]["bases"]):
            is_training |= base == TRAINING_ARGUMENTS
            inherited = _add(base, declared, own, found)
            if inherited is not None:
                fields.update(inherited.fields)
                sets |= inherited.sets
                is_training |= inherited.is_training
        fields.update(own.get(name, {}))
        is_exported = declared[name].get("exported", False)
        found[name] = TrlClass(fields, sets, is_exported=is_exported, is_training=is_training)
    return found.get(name)

"""The keywords that classes of transformers and trl take in a release: training arguments and trainers."""

from __future__ import annotations

from functools import cache

from ds_lint.knowledge import tables, trl
from ds_lint.knowledge.stacks import records
from ds_lint.targets.releases import allowed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import StackFacts, StackStore

TRANSFORMERS, TRL = "transformers", "trl"
_ARGUMENTS = "TrainingArguments"
_OF_SEQ2SEQ = "Seq2SeqTrainingArguments"
_TRAINERS = ("Trainer", "Seq2SeqTrainer")


class Keywords:
    """What a class takes: ``names``, those that ``renamed`` has too, and what is said of them in ``facts``.

    ``is_training`` says that the fields of TrainingArguments are among them, ``is_trainer`` that it is one.
    """

    __slots__ = ("facts", "is_trainer", "is_training", "names")

    def __init__(
        self, names: set[str], facts: dict[str, StackFacts], *, is_training: bool = False, is_trainer: bool = False
    ) -> None:
        self.names = names
        self.facts = facts
        self.is_training = is_training
        self.is_trainer = is_trainer


def library_of(root: str) -> str:
    """The library that has a class."""
    return root.partition(".")[0]


def releases_of(library: str) -> list[str]:
    """The releases of a library of which the classes are known, oldest first."""
    return tables.load("trl" if library == TRL else "transformers")["releases"]


def possible_releases(specifier: str | None, transformers: str) -> list[str]:
    """The releases of trl that a project may use, by its pin; None for no pin: the newest that takes its transformers.

    There is none where the pin names an address, or a release that is not known.
    """
    beside = releases_beside(transformers)
    if specifier is None:
        return beside[-1:]
    possible = allowed(specifier, releases_of(TRL)) if specifier else []
    return [one for one in possible if one in beside] or possible


def releases_beside(transformers: str) -> list[str]:
    """The releases of trl that take this release of transformers."""
    return [one for one in releases_of(TRL) if transformers in _required_by(one)]


@cache
def _required_by(release: str) -> frozenset[str]:
    specifier = _table("trl", "requires", release).get("transformers", {}).get("specifier", "")
    known = releases_of(TRANSFORMERS)
    return frozenset(allowed(specifier, known) if specifier else known)


def keywords_of(root: str, transformers: str, of_trl: str) -> Keywords | None:
    """What a class of a library takes, by its full name, in these releases; None if that is not known."""
    last = root.rpartition(".")[2]
    if library_of(root) == TRL:
        return _of_trl(trl.class_called(root), transformers, of_trl)
    if last in _TRAINERS:
        return _trainer("trainer", last, transformers)
    if last in (_ARGUMENTS, _OF_SEQ2SEQ):
        fields = _training_arguments(transformers)
        more = _table("transformers", "seq2seq_arguments", transformers) if last == _OF_SEQ2SEQ else {}
        if last == _OF_SEQ2SEQ and not more:
            return None
        return Keywords({*fields, *more}, _table("trainer", "deprecated", transformers), is_training=True)
    return None


def _of_trl(name: str, transformers: str, release: str) -> Keywords | None:
    if name.endswith("Trainer"):
        return _trainer("trl", name, release)
    found = trl.classes(release).get(name)
    if found is None:
        return None
    fields = {*found.fields}
    facts = dict(found.fields)
    if found.is_training:
        fields |= _training_arguments(transformers).keys()
        facts = {**_table("trainer", "deprecated", transformers), **facts}
    return Keywords(fields, facts, is_training=found.is_training)


def _trainer(store: str, name: str, release: str) -> Keywords | None:
    found = _table(store, "trainers", release).get(name)
    if found is not None and "inherits" in found:
        found = _table(store, "trainers", release).get(found["inherits"])
    if found is None or found.get("is_open"):
        return None
    renamed: dict[str, StackFacts] = {old: {"replaced_by": new} for old, new in found.get("renamed", {}).items()}
    return Keywords({*found["parameters"], *renamed}, renamed, is_trainer=True)


def _training_arguments(release: str) -> dict[str, StackFacts]:
    return _table("transformers", "training_arguments", release)


_tables: dict[tuple[str, str, str], dict[str, StackFacts]] = {}


def _table(store: str, table: str, release: str) -> dict[str, StackFacts]:
    place = (store, table, release)
    if place not in _tables:
        content: StackStore = tables.load(store)  # type: ignore[call-overload]  # one of three
        has = table in content and release in content["releases"]
        _tables[place] = records(content, table, release) if has else {}  # type: ignore[arg-type]
    return _tables[place]


def accepting(root: str, name: str, transformers: str, of_trl: str) -> tuple[str, list[str]]:
    """The library whose releases decide about a keyword, and those of its releases that take it."""
    if library_of(root) == TRL:
        found = [one for one in releases_of(TRL) if _takes(keywords_of(root, transformers, one), name)]
        if found or name.endswith("Trainer"):
            return TRL, found
    return TRANSFORMERS, [one for one in releases_of(TRANSFORMERS) if _takes(keywords_of(root, one, of_trl), name)]


def _takes(keywords: Keywords | None, name: str) -> bool:
    return keywords is not None and name in keywords.names


def config_of(root: str) -> str:
    """The class that has the arguments of a trainer."""
    if library_of(root) == TRL:
        return f"{root.removesuffix('Trainer')}Config"
    return f"{TRANSFORMERS}.{_OF_SEQ2SEQ if root.endswith('Seq2SeqTrainer') else _ARGUMENTS}"


def every_record() -> list[StackFacts]:
    """What of the Trainer and of deprecated arguments differs between releases of transformers."""
    store = tables.load("trainer")
    return [*store["trainers"].values(), *store["deprecated"].values()]

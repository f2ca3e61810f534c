"""The value that a training argument has for one release of transformers: what was given, else the default.

A flag is text, and becomes what HfArgumentParser makes of it for the type of the field.
"""

from __future__ import annotations

from functools import lru_cache

from ds_lint.facts.class_default import OF_TRANSFORMERS, ClassDefault
from ds_lint.facts.training import Argument
from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.facts.training import TrainingArguments
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import StackFacts

_defaults: dict[tuple[str, str], Argument] = {}  # by release of transformers and field: most fields are not given
WANTED = {"bool": "true or false", "int": "a whole number", "float": "a number", "text": "a value"}
# string_to_bool of hf_argparser.py
TRUE_WORDS, FALSE_WORDS = ("yes", "true", "t", "y", "1"), ("no", "false", "f", "n", "0")


def argument(
    training: TrainingArguments,
    knowledge: Knowledge,
    name: str,
    *,
    is_creation: bool = False,
    of_trl: Callable[[], list[str]] = list,
) -> Argument | None:
    """What a field of TrainingArguments is while the Trainer trains, or at its creation; None where it is not known.

    ``of_trl`` gives the releases of trl that the project may use.
    """
    field = fields(knowledge).get(name)
    if field is None:
        return None
    if not is_creation and name in training.later:
        return typed(training.later[name], field)
    given = training.given.get(name)
    if given is None and field.get("default") is True and kind_of(field) == "bool":
        given = training.given.get(f"no_{name}")
        if given is not None and given.is_flag:
            return Argument(False, given.origin)
    if given is not None:
        return typed(given, field)
    if name in training.defaults:
        value = training.defaults[name]
        if isinstance(value, ClassDefault):
            value, by = _of_class(value, training, knowledge, of_trl), value.cls.rpartition(".")[2]
        else:
            by = training.defaults_of
        if value is not OF_TRANSFORMERS:
            return None if value is UNKNOWN else Argument(value, f"default of {by}")
    if "default_is" in field:
        return None
    release = knowledge.target["transformers"]
    if (release, name) not in _defaults:
        _defaults[release, name] = Argument(field["default"], f"default of transformers {release}")
    return _defaults[release, name]


def default_of_class(
    training: TrainingArguments, knowledge: Knowledge, name: str, of_trl: Callable[[], list[str]]
) -> Any:
    """What a class of trl leaves a field of its own at, which TrainingArguments do not have; None if it is given."""
    default = training.defaults.get(name)
    found = _of_class(default, training, knowledge, of_trl) if isinstance(default, ClassDefault) else None
    return None if found in (UNKNOWN, OF_TRANSFORMERS) else found


def _of_class(
    default: ClassDefault, training: TrainingArguments, knowledge: Knowledge, of_trl: Callable[[], list[str]]
) -> Any:
    """What a class of trl leaves a field at, which may depend on other fields as they are made."""

    def value_of(other: str) -> Any:
        found = (
            argument(training, knowledge, other, is_creation=True, of_trl=of_trl) if other != default.field else None
        )
        return UNKNOWN if found is None else found.value

    return default.at(of_trl(), value_of)


def fields(knowledge: Knowledge) -> dict[str, StackFacts]:
    """The fields of TrainingArguments in the target's release of transformers."""
    return knowledge.table("transformers", "training_arguments")


def typed(given: Argument, field: StackFacts) -> Argument | None:
    """An argument with the value that its field gets; None if it is unknown before the run, or rejected."""
    if given.value is UNKNOWN or not given.is_flag:
        return None if given.value is UNKNOWN else given
    text = given.value[0] if isinstance(given.value, list) else given.value  # the rest is nothing of a single value
    try:
        value = given.value if text is not None and "list" in field["type"].lower() else _from_text(text, field)
    except ValueError:
        return None
    return Argument(value, given.origin)


def _from_text(text: str | None, field: StackFacts) -> Any:
    """What HfArgumentParser makes of the text behind a flag; raises ValueError where it refuses it."""
    kind = kind_of(field)
    if text is None and "bare" in field:
        return field["bare"]
    if text is None and kind == "bool" and (field["type"] == "bool" or field["default"] is not None):
        return True
    if text is None:
        raise ValueError(text)
    return from_word(text, kind)


def from_word(word: str, kind: str) -> Any:
    """What HfArgumentParser makes of a word for a value of a kind in WANTED; raises ValueError where it refuses it."""
    if kind == "bool":
        if word.lower() not in (*TRUE_WORDS, *FALSE_WORDS):
            raise ValueError(word)
        return word.lower() in TRUE_WORDS
    if kind == "text":
        return word
    return int(word) if kind == "int" else float(word)


def is_accepted(given: Argument, field: StackFacts) -> bool:
    """Whether a field takes what was given, which counts as no use of the value: its ``form`` tells as much."""
    return typed(given.plain, field) is not None


def form(given: Argument) -> object:
    """What decides which fields take an argument: two of one form are both taken or both refused."""
    value = given.value[0] if isinstance(given.value, list) and given.value else given.value
    if not given.is_flag or not isinstance(value, str):
        return given.is_flag, value is UNKNOWN, value is None
    return isinstance(given.value, list), _form_of(value)


@lru_cache(maxsize=1024)
def _form_of(text: str) -> object:
    return text.lower() in (*TRUE_WORDS, *FALSE_WORDS), _is_read(text, int), _is_read(text, float)


def _is_read(text: str, by: type[int | float]) -> bool:
    try:
        by(text)
    except ValueError:
        return False
    return True


def kind_of(field: StackFacts) -> str:
    """What a flag of a field takes: ``bool``, ``int``, ``float``, or ``text`` for everything else.

    Of ``str`` or something else, HfArgumentParser takes the other.
    """
    declared = field["type"].removesuffix(" | None").removeprefix("Optional[").removesuffix("]")
    declared = declared.removeprefix("Union[str, ").removeprefix("str | ")
    return declared if declared in WANTED else "text"

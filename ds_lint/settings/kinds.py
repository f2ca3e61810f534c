"""The kinds of value that a setting takes: each says what is wrong with a value, and what JSON Schema says for it."""

from __future__ import annotations

from ds_lint.diagnostics.finding import SEVERITIES, STACKS
from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from dataclasses import KW_ONLY
    from typing import TypeAlias

    from ds_lint.json_schema.values import Schema

    Kind: TypeAlias = "Scalar | RuleWord | ListOf | TableOf | Entries"


class Scalar(Record):
    """One value. ``words`` say in a message what it is."""

    words: str
    fits: Callable[[object], bool]
    schema: Schema

    def complaints(self, value: object, place: str) -> Iterator[str]:
        """What is wrong with a value at a place in the settings."""
        if not self.fits(value):
            yield f"{place} must be {self.words}, not {shown_value(value)}"


class RuleWord(Record):
    """A rule, by code, name, or what its code begins with; ``several`` is false where it must be one rule."""

    _: KW_ONLY
    several: bool

    @property
    def words(self) -> str:
        """What it is, in a message."""
        return 'a rule, such as "DS101" or "unknown-key"'

    @property
    def schema(self) -> Schema:
        """A definition, of which there is one for all places."""
        return {"$ref": f"#/definitions/{'rules' if self.several else 'rule'}"}

    def complaints(self, value: object, place: str) -> Iterator[str]:
        """What is wrong with a value at a place in the settings."""
        from ds_lint.knowledge.suggestions import no_such_rule
        from ds_lint.linter.selection import UnknownRule, find, rules_of

        if not isinstance(value, str) or not value:  # every code begins with nothing
            yield f"{place} must be {self.words}, not {shown_value(value)}"
        elif self.several:
            try:
                rules_of(value)
            except UnknownRule as error:
                yield f"{place}: {error}"
        elif find(value) is None:
            yield f"{place}: {no_such_rule(value)}"


class ListOf(Record):
    """A list of values of one kind."""

    words: str
    item: Kind

    @property
    def schema(self) -> Schema:
        """An array."""
        return {"type": "array", "items": self.item.schema}

    def complaints(self, value: object, place: str) -> Iterator[str]:
        """What is wrong with the list, or with each value in it."""
        if not isinstance(value, list):
            yield f"{place} must be {self.words}, not {shown_value(value)}"
            return
        for index, item in enumerate(value):
            yield from self.item.complaints(item, f"{place}[{index}]")


class TableOf(Record):
    """A table with keys of one kind and values of another."""

    words: str
    key: Kind
    value: Kind

    @property
    def schema(self) -> Schema:
        """An object."""
        return {"type": "object", "propertyNames": self.key.schema, "additionalProperties": self.value.schema}

    def complaints(self, value: object, place: str) -> Iterator[str]:
        """What is wrong with the table, or with each key and value in it."""
        if not isinstance(value, dict):
            yield f"{place} must be {self.words}, not {shown_value(value)}"
            return
        for key, item in value.items():
            yield from self.key.complaints(key, place)
            yield from self.value.complaints(item, f"{place}.{key}")


class Setting(Record):
    """A setting by its name, with what it is for."""

    name: str
    kind: Kind
    text: str


class Entries(Record):
    """A list of tables, each with settings of its own; the first of them is required."""

    words: str
    settings: tuple[Setting, ...]

    @property
    def schema(self) -> Schema:
        """An array of objects."""
        required = {"required": [self.settings[0].name]}
        return {"type": "array", "items": schema_of(self.settings) | required}

    def complaints(self, value: object, place: str) -> Iterator[str]:
        """What is wrong with the list, or with each table in it."""
        if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
            yield f"{place} must be {self.words}, not {shown_value(value)}"
            return
        for index, entry in enumerate(value):
            here = f"{place}[{index}]"
            if self.settings[0].name not in entry:
                yield f"{here} needs a {self.settings[0].name}"
            yield from complaints_about(entry, self.settings, f"{here}.")


def complaints_about(table: Mapping[str, object], settings: tuple[Setting, ...], place: str = "") -> Iterator[str]:
    """What is wrong with a table of settings: names that there are not, and values that they do not take."""
    kinds = {setting.name: setting.kind for setting in settings}
    for name, value in table.items():
        if name in kinds:
            yield from kinds[name].complaints(value, place + name)
        else:
            yield f'unknown setting "{place}{name}"{_hint(name, list(kinds))}'


def schema_of(settings: tuple[Setting, ...]) -> Schema:
    """The JSON Schema of a table of settings."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {setting.name: {"description": setting.text, **setting.kind.schema} for setting in settings},
    }


def shown_value(value: object) -> str:
    """A value as a message repeats it."""
    from json import dumps

    text = dumps(value, default=str)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _hint(name: str, names: list[str]) -> str:
    from ds_lint.knowledge.suggestions import choice

    meant = choice(name, names)
    return f', did you mean "{meant}"?' if meant else f"; valid names are {', '.join(names)}"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 1


def one_of(*choices: str) -> Scalar:
    """One of a few words."""
    words = " or ".join((", ".join(f'"{choice}"' for choice in choices[:-1]), f'"{choices[-1]}"'))
    return Scalar(words, lambda value: value in choices, {"enum": list(choices)})


def text(words: str) -> Scalar:
    """A text that is not empty."""
    return Scalar(words, _is_text, {"type": "string", "minLength": 1})


SWITCH = Scalar("true or false", lambda value: isinstance(value, bool), {"type": "boolean"})
NUMBER = Scalar("a whole number of at least 1", _is_number, {"type": "integer", "minimum": 1})
VERSION = text('a release such as "0.16.9" or a range such as ">=0.14"')
FILE = text("the path of a file")
PATTERN = text('a path or a pattern such as "tests/**"')
STACK = one_of(*STACKS)
SEVERITY = one_of(*SEVERITIES)
RULES = ListOf("a list of rules", RuleWord(several=True))

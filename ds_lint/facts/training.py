"""The training arguments of a run: fields of ``transformers.TrainingArguments``, as given.

They come from a JSON or YAML file of fields, from the flags of a launch command, or from the object itself. Which type
a field has and what it defaults to is the business of the target's release (``ds_lint/semantics/arguments.py``).
"""

from __future__ import annotations

import os

from ds_lint.facts.class_default import ClassDefault
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN, Unknown
from ds_lint.record import Record
from ds_lint.source.document import Document
from ds_lint.source.files import bytes_of
from ds_lint.source.languages import YAML
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from dataclasses import KW_ONLY
    from typing import Any


class Argument(Record):
    """One training argument.

    ``is_flag`` says that ``value`` is the text behind a flag, or None where nothing is behind it; the type of the
    field decides what becomes of it. ``document`` and ``span`` are where it is, if it is in a file.
    """

    value: Any
    origin: str  # in words: "args.json:3", "--trainer-args"
    document: Document | None = None
    span: Span | None = None
    _: KW_ONLY
    is_flag: bool = False

    def __post_init__(self) -> None:
        self.plain: Argument = self  # the same of a copy that notes when its value is read (``reads.py``)

    def __repr__(self) -> str:
        return f"Argument({self.value!r}, {self.origin!r})"


class TrainingArguments:
    """What was given of the fields; ``others`` are names that no release of TrainingArguments has: the script's own.

    ``are_taken`` says that an object of TrainingArguments, or of a class of the script below it, has these fields.
    ``defaults`` are those of ``defaults_of``, a training framework, over those of transformers. ``later`` are fields
    that a script sets once the object is made, which has compared some of them with the config by then.
    """

    __slots__ = ("are_taken", "defaults", "defaults_of", "given", "later", "origin", "others")

    def __init__(
        self,
        given: Mapping[str, Argument],
        origin: str,
        *,
        are_taken: bool = False,
        defaults: Mapping[str, Any] | None = None,
        defaults_of: str = "",
        later: Mapping[str, Argument] | None = None,
    ) -> None:
        fields = tables.load("transformers")["training_arguments"]
        self.given = {name: argument for name, argument in given.items() if field_of(name) in fields}
        self.others = {name: argument for name, argument in given.items() if name not in self.given}
        self.origin = origin
        self.are_taken = are_taken
        self.defaults = defaults or {}
        self.defaults_of = defaults_of
        self.later = later or {}

    @property
    def documents(self) -> list[Document]:
        """The files that the arguments are in, each once."""
        every = (*self.given.values(), *self.later.values())
        return list({id(one.document): one.document for one in every if one.document}.values())

    @property
    def says(self) -> object:
        """The values, by which two sets of arguments are the same wherever they are."""
        given = tuple((name, repr(one.value)) for name, one in sorted(self.given.items()))
        later = tuple((name, repr(one.value)) for name, one in sorted(self.later.items()))
        return given, later, tuple((name, repr(one)) for name, one in sorted(self.defaults.items()))

    def without_defaults(self) -> TrainingArguments:
        """The same arguments, where what is not given may be anything."""
        names = tables.load("transformers")["training_arguments"]
        defaults = {name: UNKNOWN for name in names if name not in self.given}
        given = {**self.given, **self.others}
        return TrainingArguments(given, self.origin, are_taken=self.are_taken, defaults=defaults, later=self.later)

    def may_be_set(self, name: str) -> bool:
        """Whether a field that is not given may have a value of which nothing is known."""
        if name in self.later and self.later[name].value is UNKNOWN:
            return True
        default = self.defaults.get(name)
        return name not in self.given and (default is UNKNOWN or isinstance(default, ClassDefault))

    @property
    def slips(self) -> dict[str, str]:
        """The fields that were most likely meant by names that are next to theirs."""
        if self.are_taken or not self.others:
            return {}
        from ds_lint.knowledge.suggestions import slip

        fields = [name for name in tables.load("transformers")["training_arguments"] if name not in self.given]
        return {name: meant for name in self.others if (meant := slip(name.removeprefix("no_"), fields))}


def arguments_of(source: object, given_by: str = "--trainer-args") -> TrainingArguments:
    """The arguments that a path, a string of flags or an object of TrainingArguments gives; raises UnreadableFact."""
    if not isinstance(source, str) and not hasattr(source, "__fspath__"):
        found = of_object(source)
    elif (text := str(source)).lstrip().startswith("--"):
        found = of_flags(text, given_by)
    elif text.strip():
        is_command = " " in text and not os.path.exists(text)
        found = (of_launch(text, given_by) if is_command else None) or of_file(text)
    else:
        raise UnreadableFact(f"{given_by} is empty; give a file, or flags such as --bf16")
    if not found.given:
        meant = next((f"; did you mean {meant}?" for meant in found.slips.values()), "")
        raise UnreadableFact(f"{found.origin} names no field of TrainingArguments{meant}")
    return found


def of_object(arguments: object) -> TrainingArguments:
    """The fields of an object such as ``transformers.TrainingArguments``; enums count by their values."""
    origin = f"the {type(arguments).__name__} object"
    fields = arguments if isinstance(arguments, dict) else getattr(arguments, "__dict__", None)
    if fields is None:
        raise UnreadableFact(f"training arguments must be a path, flags or an object, not {type(arguments).__name__}")
    given = {name: Argument(_as_json_has_it(value), origin) for name, value in fields.items()}
    return TrainingArguments(given, origin, are_taken=not isinstance(arguments, dict))


def of_flags(text: str, origin: str) -> TrainingArguments:
    """The flags of a launch command, in the spellings that HfArgumentParser takes; of a flag given twice, the last."""
    import shlex

    try:
        words = shlex.split(text.replace("\\\n", " ").replace("\\\r\n", " "))
    except ValueError as error:
        raise UnreadableFact(f"{origin}: {str(error).lower()}: {text}") from None
    given = {name: Argument(value, origin, is_flag=True) for name, value in flag_values(words).items()}
    return TrainingArguments(given, origin)


def flag_values(words: Iterable[str | None]) -> dict[str, Any]:
    """What is behind each flag, as HfArgumentParser takes them; None, or a shell variable, is unknown."""
    found: dict[str, Any] = {}
    name, values = "", list[str | None]()
    for word in [*words, "--"]:
        if word is None or not word.startswith("--"):
            values.append(word)
            continue
        if name:
            found[name] = _flag_value(values)
        name, equals, value = word[2:].partition("=")
        name, values = name.replace("-", "_"), [value] if equals else []
    return found


def of_launch(text: str, origin: str) -> TrainingArguments | None:
    """The flags of the script in a whole launch command; None if the text is none."""
    from ds_lint.launches.scripts import launches_in  # the parser of the shell takes time to load

    launches = launches_in(text, origin, lambda _: None).launches
    if not launches:
        return None
    if len(launches) > 1:
        raise UnreadableFact(f"{origin} has {len(launches)} launch commands; give one: {text}")
    given = {name: Argument(value, origin, is_flag=True) for name, value in flag_values(launches[0].flags).items()}
    return TrainingArguments(given, origin)


def of_file(path: str) -> TrainingArguments:
    """The fields in a JSON or YAML file, each with its place."""
    try:
        text = bytes_of(path).decode("utf-8")
    except OSError as error:
        hint = "; flags begin with --" if "--" in path else ""
        raise UnreadableFact(f"{path}: {error.strerror or error}{hint}") from None
    except UnicodeDecodeError:
        raise UnreadableFact(f"{path}: training arguments must be UTF-8") from None
    document = Document(path, text, None, [])
    is_json = path.endswith(".json") or (not path.endswith(YAML) and text.lstrip().startswith("{"))
    members = _json_members(document) if is_json else _yaml_members(document)
    given = {}
    for name, value, span in members:
        line, _ = document.position(span.start)
        given[name] = Argument(_as_json_has_it(value), f"{path}:{line}", document, span)
    if any(name in given and isinstance(given[name].value, dict) for name in ("fp16", "bf16")):
        raise UnreadableFact(f"{path} is a DeepSpeed config; training arguments are fields of TrainingArguments")
    return TrainingArguments(given, path)


def _as_json_has_it(value: Any) -> Any:
    """A value as a config may have it: an enum by its value, a number of NumPy as Python's; others are unknown."""
    if hasattr(value, "item") and callable(value.item):
        value = value.item()
    value = getattr(value, "value", value)
    if isinstance(value, (list, tuple)):
        return [_as_json_has_it(item) for item in value]
    if isinstance(value, dict):
        return {name: _as_json_has_it(below) for name, below in value.items()}
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else UNKNOWN


def field_of(name: str) -> str:
    """The field that a flag sets: ``no_x`` sets ``x`` where no release has a field ``no_x``."""
    fields = tables.load("transformers")["training_arguments"]
    return name if name in fields else name.removeprefix("no_")


def _flag_value(values: list[str | None]) -> str | list[str] | Unknown | None:
    """The value after a flag."""
    known = [value for value in values if value is not None and "$" not in value]
    if len(known) < len(values):
        return UNKNOWN
    if len(known) > 1:
        return known
    return known[0] if known else None


def _json_members(document: Document) -> Iterable[tuple[str, Any, Span]]:
    """The members of a JSON object, read as Python's json reads it."""
    from json import JSONDecodeError, loads

    from ds_lint.source import json

    try:
        values = loads(document.text)
    except JSONDecodeError as error:
        raise UnreadableFact(f"{document.path}:{error.lineno}:{error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits; a thousand brackets
        raise UnreadableFact(f"{document.path}: Python's json cannot read it: {error}") from None
    document.root = json.parse(document.text, document.path).root
    if not isinstance(values, dict) or document.root is None:
        raise UnreadableFact(f"{document.path}: training arguments must be a JSON object of fields")
    for name, value in values.items():
        member = document.root.member(name)
        assert member is not None  # noqa: S101 - json has read the same text
        yield name, value, Span(member.key_span.start, member.value.span.end)


def _yaml_members(document: Document) -> Iterable[tuple[str, Any, Span]]:
    """The entries of a YAML mapping, read as HfArgumentParser reads it."""
    from ds_lint.source import yaml
    from ds_lint.source.tree import plain

    read = yaml.parse(document.text, document.path)
    for issue in read.issues:
        line, column = document.position(issue.span.start)
        place = f"{document.path}:{line}" if issue.kind == yaml.TOO_LARGE else f"{document.path}:{line}:{column}"
        raise UnreadableFact(f"{place}: {issue.found}")
    if read.root is None or read.root.kind != "object":
        raise UnreadableFact(f"{document.path}: training arguments must be a mapping of fields")
    for member in read.root.members:
        end = max(member.key_span.end, member.value.span.end)  # an alias stands for what is above it
        yield member.key, plain(member.value), Span(member.key_span.start, end)

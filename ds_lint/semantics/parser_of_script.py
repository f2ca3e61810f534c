"""The options of the parser of a script, as the target's releases make them of classes of arguments.

Source: ``HfArgumentParser._parse_dataclass_field`` in ``transformers/hf_argparser.py``.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from ds_lint.knowledge import tables, trl
from ds_lint.knowledge.argument_types import members_of, taken
from ds_lint.knowledge.stacks import records
from ds_lint.launches.parser_options import ANY_NUMBER, DeclaredField, ParserOption
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import StackFacts, StackTable
    from ds_lint.launches.parser_options import CommandLine, ParsedClass, ValueKind

_KINDS: dict[str, ValueKind] = {"int": "int", "float": "float", "str": "text", "Path": "text"}
_LISTS = ("list", "List")
_DICTS = ("dict", "Dict")
_TABLES: dict[str, tuple[StackTable, ...]] = {
    "transformers.TrainingArguments": ("training_arguments",),
    "transformers.Seq2SeqTrainingArguments": ("training_arguments", "seq2seq_arguments"),
}
_READ: tuple[StackTable, ...] = ("training_arguments", "seq2seq_arguments", "words", "options")
_HELP = ParserOption(("-h", "--help"), "0", "any", "help")


def options_of(line: CommandLine, knowledge: Knowledge, of_trl: str) -> tuple[ParserOption, ...] | None:
    """The options of a command line, with a release of trl; None if a class is not known, or it cannot be parsed."""
    for table in _READ:
        knowledge.table("transformers", table)  # the answer depends on it
    return _built(line.classes, line.options, line.kind, knowledge.target["transformers"], of_trl)


def uses_trl(line: CommandLine) -> bool:
    """Whether a command line has arguments of a class of trl."""
    return any(one.library.startswith("trl.") for one in line.classes)


@lru_cache(maxsize=256)
def _built(
    classes: tuple[ParsedClass, ...], added: tuple[ParserOption, ...], kind: str, release: str, of_trl: str
) -> tuple[ParserOption, ...] | None:
    store = tables.load("transformers")
    words = {name: one["choices"] for name, one in records(store, "words", release).items()}
    has_dashes = "dashes" in records(store, "options", release)
    found = [_HELP]
    for one in classes:
        fields = _fields(one, release, of_trl)
        if fields is None:
            return None
        for field in fields.values():
            options = list(_options(field, words, has_dashes=has_dashes))
            if not options:
                return None
            found += options
    found += added
    if kind == "TrlParser":
        found.append(ParserOption(("--config",), ANY_NUMBER, "any", "config"))
    flags = [flag for option in found for flag in option.flags]
    return tuple(found) if len(set(flags)) == len(flags) or not classes else None


def _fields(of: ParsedClass, release: str, of_trl: str) -> dict[str, DeclaredField] | None:
    """The fields of a class: those of the library under those of the project."""
    fields: dict[str, DeclaredField] = {}
    if of.library:
        known = _fields_of_library(of.library, release, of_trl)
        if known is None:
            return None
        fields = {name: _of_library(name, facts) for name, facts in known.items()}
    fields.update((one.name, one) for one in of.fields)
    return fields


def _fields_of_library(library: str, release: str, of_trl: str) -> Mapping[str, StackFacts] | None:
    """The fields of a class of transformers or trl; None if it is another one."""
    names: tuple[StackTable, ...] = _TABLES.get(library, ())
    own: Mapping[str, StackFacts] = {}
    if library.startswith("trl."):
        found = trl.classes(of_trl).get(trl.class_called(library))
        if found is None:
            return None
        own = found.fields
        names = ("training_arguments",) if found.is_training else ()
    elif not names:
        return None
    store = tables.load("transformers")
    fields = {name: facts for table in names for name, facts in records(store, table, release).items()}
    return {**fields, **own}


def _of_library(name: str, facts: StackFacts) -> DeclaredField:
    choices = tuple(facts["choices"]) if "choices" in facts else None
    if "default_is" in facts:
        is_known = "bool" not in facts["type"]  # which has another option if it is true by default
        return DeclaredField(name, facts["type"], "given", (), choices, is_bare="bare" in facts, is_known=is_known)
    if "default" not in facts:
        return DeclaredField(name, facts["type"], "missing", (), choices)
    default = facts["default"]
    return DeclaredField(
        name,
        facts["type"],
        "none" if default is None else "true" if default is True else "given",
        (),
        choices,
        is_bare="bare" in facts,
    )


def _options(field: DeclaredField, words: Mapping[str, list[str]], *, has_dashes: bool) -> Iterator[ParserOption]:
    """The options of a field; none if its type cannot be an option."""
    dashed = field.name.replace("_", "-")
    flags = tuple(dict.fromkeys((f"--{field.name}", *((f"--{dashed}",) if has_dashes else ()), *field.aliases)))
    meant = _meant(field.type)
    if not field.is_known or meant is None or _depends_on_others(field):
        yield ParserOption(flags, ANY_NUMBER, "any", field.name)
        if "bool" in field.type:
            yield _opposite(field.name, has_dashes=has_dashes)
        return
    type_, is_optional_bool = meant
    name = dotted_name(type_).rpartition(".")[2]
    first = dotted_name(type_.value).rpartition(".")[2] if isinstance(type_, ast.Subscript) else name
    if is_optional_bool or name == "bool":
        is_bare = field.is_bare or not is_optional_bool or field.default in ("true", "given")
        takes = "?" if is_bare else "1"
        yield ParserOption(flags, takes, "bool", field.name, field.choices)
        if field.default == "true":
            yield _opposite(field.name, has_dashes=has_dashes)
        return
    is_required = field.default == "missing"
    takes = "?" if field.is_bare else "1"
    if first == "Literal" and isinstance(type_, ast.Subscript):
        yield ParserOption(flags, "1", "text", field.name, _literals(type_), is_required)
    elif name in words:
        yield ParserOption(flags, "1", "text", field.name, tuple(words[name]), is_required)
    elif first in _LISTS:
        item = dotted_name(type_.slice) if isinstance(type_, ast.Subscript) else ""
        kind: ValueKind = "text" if item in words else _KINDS.get(item, "any")
        choices = tuple(words[item]) if item in words else field.choices if kind != "any" else None
        yield ParserOption(flags, "+", kind, field.name, choices, is_required)
    elif first in _DICTS:
        yield ParserOption(flags, takes, "nothing", field.name, None, is_required)
    elif name in _KINDS:
        yield ParserOption(flags, takes, _KINDS[name], field.name, field.choices, is_required)
    else:
        is_known = name[:1].isupper() or first in ("tuple", "Tuple", "set", "Any")
        yield ParserOption(flags, "1" if is_known and not field.is_bare else ANY_NUMBER, "any", field.name)


def _depends_on_others(field: DeclaredField) -> bool:
    """Whether the parser may take another member of a union.

    typing keeps ``Optional[Union[str, dict]]`` in the order in which the first module has written it.
    """
    return field.is_own and "Optional[Union[" in field.type


def _opposite(name: str, *, has_dashes: bool) -> ParserOption:
    """``--no_x``, which a field that is true by default has."""
    dashed = (f"--no-{name.replace('_', '-')}",) if has_dashes else ()
    return ParserOption(tuple(dict.fromkeys((f"--no_{name}", *dashed))), "0", "bool", name)


@lru_cache(maxsize=1024)
def _meant(declared: str) -> tuple[ast.expr, bool] | None:
    """The type that the parser takes of a union, and whether it is an optional bool; None if that is not known."""
    members = members_of(declared)
    type_ = taken(members) if members else None
    if type_ is None:
        return None
    return type_, len(members) > 1 and ast.unparse(type_) == "bool" and "None" in map(ast.unparse, members)


def _literals(node: ast.Subscript) -> tuple[str, ...] | None:
    elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    values = [one.value for one in elements if isinstance(one, ast.Constant)]
    return tuple(map(str, values)) if len(values) == len(elements) else None

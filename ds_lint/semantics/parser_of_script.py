"""The options of the parser of a script, as the target's releases make them of classes of arguments.

Source: ``HfArgumentParser._parse_dataclass_field`` in ``transformers/hf_argparser.py``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.launches.parser_options import ANY_NUMBER, DeclaredField, ParserOption
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import StackFacts
    from ds_lint.launches.parser_options import CommandLine, ParsedClass, ValueKind

_KINDS: dict[str, ValueKind] = {"int": "int", "float": "float", "str": "text", "Path": "text"}
_LISTS = ("list", "List")
_DICTS = ("dict", "Dict")
_TABLES = {
    "transformers.TrainingArguments": ("training_arguments",),
    "transformers.Seq2SeqTrainingArguments": ("training_arguments", "seq2seq_arguments"),
}
_HELP = ParserOption(("-h", "--help"), "0", "any", "help")


def options_of(line: CommandLine, knowledge: Knowledge) -> list[ParserOption] | None:
    """The options of a command line; None if a class is not known, or the parser cannot be built."""
    words = {name: one["choices"] for name, one in knowledge.table("transformers", "words").items()}
    has_dashes = "dashes" in knowledge.table("transformers", "options")
    found = [_HELP]
    for one in line.classes:
        fields = _fields(one, knowledge)
        if fields is None:
            return None
        for field in fields.values():
            options = list(_options(field, words, has_dashes=has_dashes))
            if not options:
                return None
            found += options
    found += line.options
    if line.kind == "TrlParser":
        found.append(ParserOption(("--config",), ANY_NUMBER, "any", "config"))
    flags = [flag for option in found for flag in option.flags]
    return found if len(set(flags)) == len(flags) or not line.classes else None


def fields_of_library(library: str, knowledge: Knowledge) -> Mapping[str, StackFacts] | None:
    """The fields of a class of transformers in the target's release; None if it is another one."""
    tables = _TABLES.get(library)
    if tables is None:
        return None
    return {
        name: facts
        for table in tables
        for name, facts in knowledge.table("transformers", table).items()  # type: ignore[arg-type]
    }


def _fields(of: ParsedClass, knowledge: Knowledge) -> dict[str, DeclaredField] | None:
    """The fields of a class: those of the library under those of the project."""
    fields: dict[str, DeclaredField] = {}
    if of.library:
        known = fields_of_library(of.library, knowledge)
        if known is None:
            return None
        fields = {name: _of_library(name, facts) for name, facts in known.items()}
    fields.update((one.name, one) for one in of.fields)
    return fields


def _of_library(name: str, facts: StackFacts) -> DeclaredField:
    if "default_is" in facts:
        return DeclaredField(name, facts["type"], "given", is_bare="bare" in facts)
    if "default" not in facts:
        return DeclaredField(name, facts["type"], "missing")
    default = facts["default"]
    return DeclaredField(
        name,
        facts["type"],
        "none" if default is None else "true" if default is True else "given",
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


def _meant(declared: str) -> tuple[ast.expr, bool] | None:
    """The type that the parser takes of a union, and whether it is an optional bool; None if that is not known."""
    try:
        parts = list(_parts(ast.parse(declared, mode="eval").body))
    except SyntaxError:
        return None
    texts = [ast.unparse(one) for one in parts]
    if len(parts) == 1:
        return parts[0], False
    if "str" not in texts and (len(parts) != 2 or "None" not in texts):
        return None  # which the parser refuses when the script starts
    if "None" not in texts:
        return parts[0] if texts[1] == "str" else parts[1], False
    if "bool" not in texts:
        return parts[0] if texts[1] == "None" else parts[1], False
    return (parts[texts.index("bool")], True) if len(parts) == 2 else None


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The members of a union, in their order, each once."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found = [*_parts(node.left), *_parts(node.right)]
    elif isinstance(node, ast.Subscript) and dotted_name(node.value).rpartition(".")[2] in ("Optional", "Union"):
        elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        found = [part for one in elements for part in _parts(one)]
        if dotted_name(node.value).endswith("Optional"):
            found.append(ast.Constant(None))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # a forward reference
        found = [*_parts(ast.parse(node.value, mode="eval").body)]
    else:
        found = [node]
    yield from {ast.unparse(one): one for one in found}.values()


def _literals(node: ast.Subscript) -> tuple[str, ...] | None:
    elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    values = [one.value for one in elements if isinstance(one, ast.Constant)]
    return tuple(map(str, values)) if len(values) == len(elements) else None

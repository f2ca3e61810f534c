"""The fields of the classes that HfArgumentParser and TrlParser get, as dataclasses of the project declare them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, Literal

from ds_lint.launches.parser_options import DeclaredField, ParsedClass
from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.launches.script_modules import DefinedClass
from ds_lint.launches.script_options import is_dataclass
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.script_modules import ScriptModule

_LIBRARIES = ("transformers", "trl")
_PLAIN = ("object", "abc.ABC", "ABC")
_DEEPEST = 8
_ENUMS = ("Enum", "ExplicitEnum", "IntEnum", "StrEnum")
_OF_METADATA = ("aliases", "choices", "help")


def parsed_class(name: str, module: ScriptModule) -> ParsedClass | None:
    """The class that a name means in a module; None if not all of its fields show."""
    found = module.class_of(name)
    fields: dict[str, DeclaredField] = {}
    libraries: list[str] = []
    if not _collect(found, fields, libraries, _DEEPEST) or len(libraries) > 1:
        return None
    return ParsedClass(name.rpartition(".")[2], libraries[0] if libraries else "", tuple(fields.values()))


def _collect(found: DefinedClass | str, fields: dict[str, DeclaredField], libraries: list[str], depth: int) -> bool:
    """Add the fields of a class and its bases; false if some do not show."""
    if isinstance(found, str):
        first = found.partition(".")[0]
        if first in _LIBRARIES and found != first:
            full = f"{first}.{found.rpartition('.')[2]}"
            if full not in libraries:
                libraries.append(full)
            return True
        return found in _PLAIN
    node, module = found
    if depth == 0 or node.keywords:
        return False
    for base in reversed(node.bases):
        text = dotted_name(base)
        meant = module.class_of(text, but=node) if text not in _PLAIN else text
        if not _collect(meant, fields, libraries, depth - 1):
            return False
    if not is_dataclass(node):  # it declares none
        return True
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if (one := _field(statement.target.id, statement, module)) is not None:
                fields[one.name] = one
        elif isinstance(statement, (ast.If, ast.For, ast.Try, ast.With)):
            return False
    return True


def _field(name: str, statement: ast.AnnAssign, module: ScriptModule) -> DeclaredField | None:
    """What a statement declares; None if it declares none."""
    annotation = _annotation(statement.annotation)
    declared = ast.unparse(annotation)
    if "ClassVar" in declared or "KW_ONLY" in declared:
        return None
    value, aliases, choices, is_known, is_made = statement.value, list[str](), None, "InitVar" not in declared, False
    if isinstance(value, ast.Call) and last_name(value) in ("field", "Field", "HfArg"):
        if literal(keyword(value, "init")) is False:
            return None
        metadata = _metadata(value)
        is_known &= metadata is not None and not any(one.arg is None for one in value.keywords)
        metadata = metadata or {}
        aliases = list(_texts(metadata.get("aliases") or keyword(value, "aliases")))
        choices, are_known = _choices(metadata.get("choices") or keyword(value, "choices"))
        is_known &= are_known
        is_made = keyword(value, "default_factory") is not None
        value = keyword(value, "default")
    default: Literal["missing", "true", "none", "made", "given"] = "given"
    if value is None or dotted_name(value).endswith("MISSING"):
        default = "made" if is_made else "missing"
    elif isinstance(value, ast.Constant) and value.value in (None, True):
        default = "none" if value.value is None else "true" if value.value is True else "given"
    elif not isinstance(value, ast.Constant) and "bool" in declared:
        is_known = False  # whether it is true decides about another option
    text = _with_literals(annotation, module)
    return DeclaredField(name, text, default, tuple(aliases), choices, is_known=is_known, is_own=True)


def _annotation(node: ast.expr) -> ast.expr:
    """An annotation that may be written as a text."""
    text = literal(node)
    try:
        return ast.parse(text, mode="eval").body if isinstance(text, str) else node
    except SyntaxError:
        return node


def _with_literals(annotation: ast.expr, module: ScriptModule) -> str:
    """An annotation as a text, with the values of the enumerations that it names."""
    text = ast.unparse(annotation)
    for node in ast.walk(annotation):
        name = dotted_name(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""
        found = module.class_of(name) if name[:1].isupper() else ""
        if isinstance(found, DefinedClass) and any(
            dotted_name(one).rpartition(".")[2] in _ENUMS for one in found.node.bases
        ):
            assigned = [one.value for one in found.node.body if isinstance(one, ast.Assign)]
            values = [repr(one.value) for one in assigned if isinstance(one, ast.Constant)]
            if values and len(values) == len(assigned):
                text = text.replace(name, f"Literal[{', '.join(values)}]")
    return text


def _metadata(call: ast.Call) -> dict[str, ast.expr] | None:
    """The metadata of a field that its parser knows; None if they may change how it is parsed."""
    node = keyword(call, "metadata")
    if node is None:
        return {}
    if not isinstance(node, ast.Dict):
        return None
    found = {literal(key): value for key, value in zip(node.keys, node.values, strict=True) if key is not None}
    is_known = len(found) == len(node.keys) and all(key in _OF_METADATA for key in found)
    return {str(key): value for key, value in found.items()} if is_known else None


def _texts(node: ast.expr | None) -> Iterator[str]:
    for one in node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]:
        if isinstance(text := literal(one), str):
            yield text


def _choices(node: ast.expr | None) -> tuple[tuple[Any, ...] | None, bool]:
    """The choices in the metadata, and whether they show."""
    if node is None:
        return None, True
    try:
        return tuple(ast.literal_eval(node)), True
    except (ValueError, TypeError):
        return None, False

"""The JSON types of a field's annotation, and the models of the sections that it names."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.deepspeed.classes import is_dataclass
from tools.extract.deepspeed.values import ANY_KEY, ITEM, Class, constant

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.modules import Module
    from tools.extract.deepspeed.values import KeyPath, Names

_NAMED: dict[str, dict[str, Any]] = {
    "int": {"type": "integer"},
    "pp_int": {"type": "integer"},
    "PositiveInt": {"type": "integer", "exclusiveMinimum": 0},
    "NonNegativeInt": {"type": "integer", "minimum": 0},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "StrictBool": {"type": "boolean"},
    "str": {"type": "string"},
    "Path": {"type": "string"},
    "dtype": {"type": "string"},
}
_ARRAYS = ("list", "List", "set", "Set", "tuple", "Tuple", "Sequence", "Iterable")
_MAPPINGS = ("dict", "Dict", "Mapping", "DefaultDict", "defaultdict", "OrderedDict")


class Section(NamedTuple):
    """A model below a field: ``below`` is where, relative to the field's key."""

    below: KeyPath
    model: Class


class Annotation(NamedTuple):
    """What a field takes. An empty schema is any value."""

    schema: dict[str, Any]
    sections: tuple[Section, ...] = ()


def annotation(analysis: Analysis, module: Module, node: ast.expr, closure: Names) -> Annotation:
    """The meaning of an annotation."""
    match node:
        case ast.Constant(value=None):
            return Annotation({"type": "null"})
        case ast.Constant(value=str() as text):
            return annotation(analysis, module, ast.parse(text, mode="eval").body, closure)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _union([annotation(analysis, module, part, closure) for part in (left, right)])
        case ast.Subscript(value=generic, slice=index):
            parts = index.elts if isinstance(index, ast.Tuple) else [index]
            return _generic(analysis, module, _last_name(generic), parts, closure)
        case ast.Name() | ast.Attribute():
            return _named(analysis, module, node, closure)
        case _:
            return Annotation({})


def _last_name(node: ast.expr) -> str:
    return ast.unparse(node).rsplit(".", 1)[-1]


def _generic(analysis: Analysis, module: Module, name: str, parts: list[ast.expr], closure: Names) -> Annotation:
    if name == "Literal":
        values = [constant(analysis.evaluate(module, part)) for part in parts]
        return Annotation({"enum": [value.value for value in values if value]})
    inner = [annotation(analysis, module, part, closure) for part in parts]
    if name == "Optional":
        return _union([*inner, Annotation({"type": "null"})])
    if name == "Union":
        return _union(inner)
    if name == "Annotated":
        return inner[0]
    if name in _ARRAYS:
        schema = {"type": "array", "items": inner[0].schema} if inner[0].schema else {"type": "array"}
        return Annotation(schema, _moved(inner[0], ITEM))
    if name in _MAPPINGS:
        return Annotation({"type": "object"}, _moved(inner[-1], ANY_KEY))
    return Annotation({})


def _moved(inner: Annotation, below: str) -> tuple[Section, ...]:
    return tuple(Section((below, *section.below), section.model) for section in inner.sections)


def _named(analysis: Analysis, module: Module, node: ast.expr, closure: Names) -> Annotation:
    name = _last_name(node)
    if name in _NAMED:
        return Annotation(_NAMED[name])
    if name in (*_ARRAYS, *_MAPPINGS):
        return Annotation({"type": "array" if name in _ARRAYS else "object"})
    value = analysis.evaluate(module, node, closure)
    if isinstance(value, Class):
        if analysis.classes.is_enumeration(value):
            return Annotation({"enum": analysis.classes.accepted(value)})
        if analysis.classes.is_model(value) or is_dataclass(value):
            return Annotation({"type": "object"}, (Section((), value),))
    source = analysis.sources.definition(module, name)
    if source and isinstance(source[1], ast.expr):  # PassName = Literal[...]
        return annotation(analysis, source[0], source[1], closure)
    return Annotation({})


def _union(parts: list[Annotation]) -> Annotation:
    sections = tuple(section for part in parts for section in part.sections)
    if any(not part.schema for part in parts):
        return Annotation({}, sections)
    types = list(dict.fromkeys(kind for part in parts for kind in _types(part)))
    choices = list(dict.fromkeys(choice for part in parts for choice in part.schema.get("enum", ())))
    if choices:
        is_choice = not set(types) - {"null"}
        return Annotation({"enum": choices + [None] * ("null" in types)} if is_choice else {}, sections)
    schema: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    items = [part.schema["items"] for part in parts if "items" in part.schema]
    return Annotation(schema | ({"items": items[-1]} if items else {}), sections)


def _types(part: Annotation) -> list[str]:
    kinds = part.schema.get("type", [])
    return kinds if isinstance(kinds, list) else [kinds]

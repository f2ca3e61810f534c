"""The keys that pydantic models declare, in the spelling of pydantic 1 and of pydantic 2.

A field's type comes from its annotation, its default from the assignment or from ``Field``; keyword arguments of
``Field`` are bounds and the alias, and what DeepSpeed adds for deprecated names (``deprecated``, ``new_param``), which
is in ``json_schema_extra`` since pydantic 2.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tools.extract.deepspeed.annotations import Annotation, annotation
from tools.extract.deepspeed.functions import enter
from tools.extract.deepspeed.records import NO_DEFAULT, Declaration
from tools.extract.deepspeed.values import (
    Arguments,
    Class,
    Constant,
    External,
    Function,
    Instance,
    ModelField,
    Value,
    constant,
)

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.values import KeyPath

DEEPEST_MODEL = 6
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_EMPTY: dict[str, Any] = {"builtins.list": [], "builtins.dict": {}}
_EXTRA = {"forbid": "rejected", "allow": "open", "ignore": "ignored"}


@dataclass(frozen=True)
class Field:
    """One field of a model, or of a dataclass."""

    name: str
    key: str  # its alias, or its name
    takes: Annotation
    default: Any  # NO_DEFAULT where it is required, or made by code that was not understood
    keywords: dict[str, Any]  # of Field(), as far as they are constants

    @property
    def section(self) -> Class | None:
        """The model of the field's own value."""
        return next((section.model for section in self.takes.sections if not section.below), None)

    @property
    def declaration(self) -> Declaration:
        """What the field says of its key."""
        schema = dict(self.takes.schema)
        schema |= {_BOUNDS[name]: value for name, value in self.keywords.items() if name in _BOUNDS} if schema else {}
        return Declaration(
            schema,
            self.default,
            replaced_by=self.keywords.get("new_param"),
            deprecated=bool(self.keywords.get("deprecated")),
            field_name=self.name if self.key != self.name else None,
        )


def fields(analysis: Analysis, cls: Class) -> list[Field]:
    """Every field, those of the bases first."""
    found: dict[str, Field] = {}
    for owner in reversed(analysis.classes.own_lineage(cls)):
        for node in owner.node.body:
            field = _field(analysis, owner, node, is_model=analysis.classes.is_model(cls))
            if field:
                found[field.name] = field
    return list(found.values())


def _field(analysis: Analysis, owner: Class, node: ast.stmt, *, is_model: bool) -> Field | None:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name), annotation=written, value=value):
            if "ClassVar" in ast.unparse(written):
                return None
            takes = annotation(analysis, owner.module, written, owner.closure)
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_model and not isinstance(value, ast.Lambda):
            takes = Annotation({})
        case _:
            return None
    if name.startswith("_") or name == "model_config":
        return None
    keywords = _keywords(value)
    fixed = {word: one.value for word, part in keywords.items() if (one := _constant(analysis, owner, part))}
    return Field(name, fixed.get("alias", name), takes, _default(analysis, owner, value, keywords), fixed)


def _is_field_call(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and ast.unparse(value.func).rsplit(".", 1)[-1] in ("Field", "field")


def _keywords(value: ast.expr | None) -> dict[str, ast.expr]:
    """The keyword arguments of ``Field``, with those of ``json_schema_extra`` among them."""
    if not isinstance(value, ast.Call) or not _is_field_call(value):
        return {}
    keywords = {word.arg: word.value for word in value.keywords if word.arg}
    extra = keywords.pop("json_schema_extra", None)
    if isinstance(extra, ast.Dict):
        pairs = zip(extra.keys, extra.values, strict=True)
        keywords |= {str(key.value): part for key, part in pairs if isinstance(key, ast.Constant)}
    return keywords


def _constant(analysis: Analysis, owner: Class, node: ast.expr) -> Constant | None:
    return constant(analysis.evaluate(owner.module, node, owner.closure))


def _default(analysis: Analysis, owner: Class, value: ast.expr | None, keywords: dict[str, ast.expr]) -> Any:
    if isinstance(value, ast.Call) and _is_field_call(value):
        factory = keywords.get("default_factory")
        if factory:
            return _made_by(analysis, analysis.evaluate(owner.module, factory, owner.closure))
        value = value.args[0] if value.args else keywords.get("default")
    if value is None or (isinstance(value, ast.Constant) and value.value is Ellipsis):
        return NO_DEFAULT
    return _plain(analysis.evaluate(owner.module, value, owner.closure))


def _made_by(analysis: Analysis, factory: Value) -> Any:
    if isinstance(factory, Function):
        return _plain(enter(analysis, factory, Arguments()))
    if isinstance(factory, External):
        return _EMPTY.get(factory.name, NO_DEFAULT)
    return _plain(factory)


def _plain(default: Value) -> Any:
    """A default as JSON has it: a model is a section that says nothing, ``torch.float16`` goes by its name."""
    if isinstance(default, (Class, Instance)):
        return {}
    if isinstance(default, External):
        return default.name
    fixed = constant(default)
    return fixed.value if fixed else NO_DEFAULT


def unknown_keys(analysis: Analysis, cls: Class) -> str:
    """What the model, or the constructor of a dataclass, does with keys that it does not know."""
    if not analysis.classes.is_model(cls):
        return "rejected"
    extras = (extra for owner in analysis.classes.own_lineage(cls) for extra in _extras(owner))
    return next(extras, _EXTRA["ignore"])


def _extras(owner: Class) -> list[str]:
    found = []
    for node in owner.node.body:
        match node:
            case ast.ClassDef(name="Config", body=body):  # pydantic 1
                settings = [(one.targets[0], one.value) for one in body if isinstance(one, ast.Assign)]
                found += [value for target, value in settings if ast.unparse(target) == "extra"]
            case ast.Assign(targets=[ast.Name(id="model_config")], value=ast.Call(keywords=keywords)):
                found += [word.value for word in keywords if word.arg == "extra"]
    return [_EXTRA[ast.unparse(value).strip("\"'").rsplit(".", 1)[-1]] for value in found]


def declare_section(
    analysis: Analysis, cls: Class, path: KeyPath, skip: frozenset[str] = frozenset(), depth: int = 0
) -> None:
    """A section is validated by a model; ``skip`` are fields that get their values from elsewhere."""
    if depth == DEEPEST_MODEL:
        return
    analysis.records.treat(path, unknown_keys(analysis, cls))
    if analysis.classes.is_model(cls):
        analysis.records.models[cls] = None
    if path:
        key = analysis.records.key(path)
        key.ways.add("declared")
        key.has_model = True
    for field in fields(analysis, cls):
        if field.name not in skip:
            declare(analysis, field, (*path, field.key), depth)


def declare(analysis: Analysis, field: Field, path: KeyPath, depth: int = 0) -> None:
    """A key is read into a field of a model."""
    analysis.records.declare(path, field.declaration)
    for section in field.takes.sections:
        declare_section(analysis, section.model, (*path, *section.below), depth=depth + 1)


def fields_read_from(analysis: Analysis, cls: Class, path: KeyPath) -> dict[str, ModelField]:
    """The fields of a model that was made of the section at a path."""
    return {field.name: ModelField((*path, field.key), field.section) for field in fields(analysis, cls)}

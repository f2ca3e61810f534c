"""The definitions of classes: bodies, decorators, fields and members."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes
from ds_lint.source.evaluation.assignments import slot_of
from ds_lint.source.evaluation.frames import CallFrame
from ds_lint.source.evaluation.names import bind, reference_name
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Environment,
    Field,
    Known,
    LibraryName,
    ModuleError,
    ModuleFunction,
    Object,
    Slot,
    Undecided,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Value


def run_class(run: Evaluator, node: ast.ClassDef) -> None:  # noqa: PLR0912 - one for each kind
    """Run ``class C: ...``."""
    bases = [run.evaluate(one) for one in node.bases if not isinstance(one, ast.Starred)]
    attributes = run.state.new_dict(node)
    cls = Class(node.name, node, bases, attributes)
    cls.is_plain = not node.keywords and len(bases) == len(node.bases)
    for base in bases:
        if isinstance(base, Class):
            cls.is_plain &= base.is_plain
            cls.kind = cls.kind or ("" if base.kind == "dataclass" else base.kind)
        elif isinstance(base, LibraryName) and base.name in classes.ENUMS:
            cls.kind = classes.ENUMS[base.name]
        elif isinstance(base, LibraryName) and base.name == "typing.NamedTuple":
            cls.kind = "namedtuple"
        elif isinstance(base, LibraryName) and base.name in ("builtins.str", "builtins.int") and len(bases) == 2:
            pass  # before Enum
        elif not (isinstance(base, LibraryName) and base.name in classes.PLAIN_BASES):
            cls.is_plain = False
    if cls.kind == "enum" and any(
        base == LibraryName("builtins.str") or base == LibraryName("builtins.int") for base in bases
    ):
        cls.kind = "number"
    elif cls.kind not in ("enum", "number") and LibraryName("builtins.str") in bases:
        cls.is_plain = False
    environment = Environment(attributes, run.frame.environment, None)
    environment.is_class = True
    environment.globals = run.frame.environment.globals
    frame = CallFrame(environment, run.frame.mark, run.frame.depth)
    outer, run.frame = run.frame, frame
    try:
        run.block(node.body)
    finally:
        run.frame = outer
    try:
        cls.order = classes.order_of(cls)
    except ModuleError:
        cls.is_plain = False
    _adopt(run, cls, node)
    value: Value = cls
    for decorator in reversed(node.decorator_list):
        value = _decorated(run, cls, value, decorator)
    if node.keywords:
        value = Undecided(node, (cls,))
    if cls.kind == "namedtuple":
        cls.fields = _fields(run, cls, node)
    if cls.kind in ("enum", "number"):
        _make_members(run, cls, node)
    bind(run, node.name, Slot(value, node))


def _adopt(run: Evaluator, cls: Class, node: ast.ClassDef) -> None:
    """Note which functions are methods of a class."""
    for statement in node.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement in run.functions:
            run.functions[statement].owner = cls


def _decorated(run: Evaluator, cls: Class, value: Value, decorator: ast.expr) -> Value:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = reference_name(run, called)
    if name == "dataclasses.dataclass":
        cls.kind = "dataclass"
        assert cls.node is not None  # noqa: S101
        cls.fields = _fields(run, cls, cls.node)
        is_keyword = isinstance(decorator, ast.Call) and any(
            one.arg == "kw_only" and not (isinstance(one.value, ast.Constant) and one.value.value is False)
            for one in decorator.keywords
        )
        if is_keyword:
            cls.fields = [field._replace(is_keyword=True) for field in cls.fields]
        if isinstance(decorator, ast.Call) and any(one.arg == "init" for one in decorator.keywords):
            cls.is_plain = False
        return value
    if name.startswith(("functools.total_ordering", "enum.unique", "typing.")):
        return value
    decorate = run.evaluate(decorator)
    if isinstance(decorate, (ModuleFunction, Bound)):
        return run.call(decorate, Arguments([Slot(value, decorator)], {}), decorator)
    cls.is_plain = False
    return Undecided(decorator)


def _fields(run: Evaluator, cls: Class, node: ast.ClassDef) -> list[Field]:
    """The fields that the annotations of a class make."""
    found: list[Field] = []
    is_keyword = False
    for statement in node.body:
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        written = ast.dump(statement.annotation)
        if "ClassVar" in written:
            continue
        if "KW_ONLY" in written:
            is_keyword = True
            continue
        if "InitVar" in written:
            cls.is_plain = False
        name = statement.target.id
        default = cls.attributes.content.entries.get(name)
        value = statement.value
        if isinstance(value, ast.Call) and reference_name(run, value.func) == "dataclasses.field":
            found.append(_field(run, cls, name, value, is_keyword=is_keyword))
        else:
            found.append(Field(name, default, is_keyword=is_keyword))
    return found


def _field(run: Evaluator, cls: Class, name: str, call: ast.Call, *, is_keyword: bool) -> Field:
    given = {one.arg: one.value for one in call.keywords}
    default = factory = None
    if "default" in given:
        default = slot_of(run, given["default"]).with_key(call)
        run.state.put(cls.attributes, name, default)
    else:
        run.state.remove(cls.attributes, name)
    if "default_factory" in given:
        factory = run.evaluate(given["default_factory"])
    takes = not (isinstance(given.get("init"), ast.Constant) and given["init"].value is False)  # type: ignore[attr-defined]
    keyword = given.get("kw_only")
    is_keyword |= isinstance(keyword, ast.Constant) and keyword.value is True
    return Field(name, default, factory, takes, is_keyword)


def _make_members(run: Evaluator, cls: Class, node: ast.ClassDef) -> None:
    number = 0
    for statement in node.body:
        if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
            continue
        name = statement.targets[0].id
        slot = cls.attributes.content.entries.get(name)
        if slot is None or name.startswith("_"):
            continue
        is_auto = isinstance(statement.value, ast.Call) and reference_name(run, statement.value.func) == "enum.auto"
        if is_auto:
            is_text = any(isinstance(base, LibraryName) and base.name == "enum.StrEnum" for base in cls.bases)
            number += 1
            made: Value = Known(name.lower() if is_text else number, statement.value)
            slot = Slot(made, statement.value, is_fixed=True)
        elif isinstance(slot.value, Known) and isinstance(slot.value.value, int):
            number = slot.value.value
        entries = {"_value_": slot, "_name_": Slot(Known(name, statement.targets[0]), statement, is_fixed=True)}
        same_value = next(
            (one for one in cls.members if run.equal(one.attributes.content.entries["_value_"].value, slot.value)),
            None,
        )
        member = same_value or Object(cls, run.state.new_dict(statement, entries), statement)
        if same_value is None:
            cls.members.append(member)
        run.state.put(cls.attributes, name, Slot(member, slot.place))

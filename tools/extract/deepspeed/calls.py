"""What a call does: functions of the package are entered, models declare keys, a few builtins are known.

A function is entered once for the same arguments; what it returned then is its value. Functions that nothing of the
user's reaches are entered only where they are short: they may return a name or a default.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.deepspeed import models, sections, signatures
from tools.extract.deepspeed.classes import is_dataclass
from tools.extract.deepspeed.values import (
    UNKNOWN,
    Array,
    ChosenByUser,
    Class,
    Constant,
    Entries,
    External,
    Function,
    Instance,
    Method,
    ModelField,
    Package,
    Table,
    UserValue,
    alternatives,
    constant,
    either,
    folded,
    holds_user_value,
    user_values,
)

if TYPE_CHECKING:
    from tools.extract.deepspeed.interpreter import Analysis, Frame
    from tools.extract.deepspeed.values import FunctionNode, Names, Path, Value

MOST_SPLICED = 8
DEEPEST_STACK = 28
DEEPEST_RECURSION = 2
SHORT = 12  # statements
_ENGINES = ("DeepSpeedEngine", "PipelineEngine", "DeepSpeedHybridEngine")  # entry points of their own
_READERS = ("json.load", "json.loads", "hjson.load", "hjson.loads")
_CONFIG_READERS = ("deepspeed.runtime.config", "deepspeed.compression.compress", "deepspeed.compression.helper")
_NEW_STRINGS = ("lower", "upper", "strip", "replace", "startswith", "endswith", "format")


class Arguments(NamedTuple):
    """The arguments of a call; ``spread`` are those with two stars."""

    positional: tuple[Value, ...] = ()
    named: Names = {}  # noqa: RUF012 - nothing changes it
    spread: tuple[Value, ...] = ()

    @property
    def first(self) -> Value:
        """The first positional argument."""
        return self.positional[0] if self.positional else UNKNOWN

    @property
    def default(self) -> Value | None:
        """What ``get`` and the like return for a missing key."""
        return self.positional[1] if len(self.positional) > 1 else self.named.get("default")

    def hold_user_values(self) -> bool:
        """Whether the callee gets anything of the user's."""
        return any(map(holds_user_value, (*self.positional, *self.named.values(), *self.spread)))


@dataclass
class History:
    """The calls that are under way, and what the finished ones returned."""

    stack: list[FunctionNode] = field(default_factory=list)
    returned: dict[Any, Value] = field(default_factory=dict)


def call(frame: Frame, callee: Value, arguments: Arguments) -> Value:
    """The value of a call."""
    return either(*[_call(frame, one, arguments) for one in alternatives(callee)])


def _call(frame: Frame, callee: Value, arguments: Arguments) -> Value:
    match callee:
        case Method(receiver=receiver, name=name):
            return _call_method(frame, receiver, name, arguments)
        case ChosenByUser():
            signatures.note_choice(frame.analysis, callee, arguments)
            return UNKNOWN
        case Class():
            return _construct(frame.analysis, callee, arguments)
        case Function():
            signatures.note_spread(frame.analysis, callee, arguments)
            return enter(frame.analysis, callee, arguments)
        case External(name=name):
            signatures.note_spread(frame.analysis, callee, arguments)
            return _call_external(frame, name, arguments)
        case _:
            return UNKNOWN


def _construct(analysis: Analysis, cls: Class, arguments: Arguments) -> Value:
    classes = analysis.classes
    if classes.is_enumeration(cls):
        for one in user_values(arguments.first):
            analysis.records.key(one.path).one_of.append(classes.accepted(cls))
        return arguments.first
    if classes.is_exception(cls):
        return UNKNOWN
    if classes.is_scalar(cls):
        return arguments.first
    if classes.is_model(cls) or (is_dataclass(cls) and arguments.spread):
        return _validate(analysis, cls, arguments)
    signatures.note_spread(analysis, cls, arguments)
    instance = Instance(cls)
    constructor = classes.constructor(cls)
    if constructor and cls.name not in _ENGINES and arguments.hold_user_values():
        enter(analysis, _bound(constructor.owner, constructor.node, instance), arguments)
    return instance


def _bound(owner: Class, node: Any, instance: Instance) -> Function:
    return Function(owner.module, node, owner, instance, owner.closure)


def _validate(analysis: Analysis, cls: Class, arguments: Arguments) -> Value:
    """``Model(**section)``, or ``Model(**{"field": section, ...})``."""
    instance = Instance(cls, dict(arguments.named))
    for source in (one for value in arguments.spread for one in alternatives(value)):
        if isinstance(source, UserValue):
            models.declare_section(analysis, cls, source.path)
            instance.fields.update(models.fields_read_from(analysis, cls, source.path))
        elif isinstance(source, Table):
            for model_field in models.fields(analysis, cls):
                for one in user_values(source.entries.get(model_field.name, UNKNOWN)):
                    models.declare(analysis, model_field, one.path)
                    instance.fields[model_field.name] = ModelField(one.path, model_field.section)
            for section in source.overlaid:
                models.declare_section(analysis, cls, section.path, skip=frozenset(source.entries))
    return instance


def validated(analysis: Analysis, cls: Class, path: Path) -> Instance:
    """The model of the section at a path."""
    return Instance(cls, fields=models.fields_read_from(analysis, cls, path))


def enter(analysis: Analysis, function: Function, arguments: Arguments) -> Value:
    """Run a function of the package, and return what it returns."""
    if not _is_worth_entering(function, arguments):
        return UNKNOWN
    history = analysis.calls
    memo = (function, arguments.positional, tuple(sorted(arguments.named.items())), arguments.spread)
    if memo in history.returned:
        return history.returned[memo]
    if len(history.stack) > DEEPEST_STACK or history.stack.count(function.node) >= DEEPEST_RECURSION:
        return UNKNOWN
    history.returned[memo] = UNKNOWN  # what it returns to itself
    names = _parameters(analysis, function, arguments)
    history.stack.append(function.node)
    try:
        history.returned[memo] = analysis.run(function, names)
    finally:
        history.stack.pop()
    return history.returned[memo]


def _is_worth_entering(function: Function, arguments: Arguments) -> bool:
    return (
        isinstance(function.node, ast.Lambda)
        or isinstance(function.receiver, Instance)
        or len(function.node.body) <= SHORT
        or arguments.hold_user_values()
    )


def _parameters(analysis: Analysis, function: Function, arguments: Arguments) -> Names:
    """What the parameters of a function are bound to."""
    declared = function.node.args
    places = [one.arg for one in (*declared.posonlyargs, *declared.args)]
    positional = [function.receiver] if function.receiver and not isinstance(function.node, ast.Lambda) else []
    positional += arguments.positional
    names = dict(function.closure)
    names |= dict.fromkeys((*places, *(one.arg for one in declared.kwonlyargs)), UNKNOWN)
    for name, node in defaults(declared).items():
        names[name] = analysis.evaluate(function.module, node, function.closure)
    names |= dict(zip(places, positional, strict=False))
    by_name = {*places, *(one.arg for one in declared.kwonlyargs)}
    rest = Table()
    for name, value in arguments.named.items():
        (names if name in by_name else rest.entries)[name] = value
    for spread in (one for value in arguments.spread for one in alternatives(value)):
        if isinstance(spread, Table):
            for name, value in spread.entries.items():
                (names if name in by_name else rest.entries)[name] = value
            rest.overlaid += spread.overlaid
        elif isinstance(spread, UserValue):
            rest.overlaid.append(spread)
            for name in places[len(positional) :]:
                names[name] = either(names[name], UserValue((*spread.path, name)))
    if declared.vararg:
        names[declared.vararg.arg] = Array(positional[len(places) :])
    if declared.kwarg:
        names[declared.kwarg.arg] = rest
    return names


def defaults(declared: ast.arguments) -> dict[str, ast.expr]:
    """The expressions of the parameters that have a default."""
    places = [one.arg for one in (*declared.posonlyargs, *declared.args)]
    by_place = dict(zip(places[len(places) - len(declared.defaults) :], declared.defaults, strict=True))
    by_name = zip(declared.kwonlyargs, declared.kw_defaults, strict=True)
    return by_place | {one.arg: node for one, node in by_name if node}


def _call_method(frame: Frame, receiver: Value, name: str, arguments: Arguments) -> Value:
    if name in ("get", "pop", "setdefault") and arguments.positional and not isinstance(receiver, (Array, Constant)):
        default = arguments.default or (Constant(None) if name == "get" and isinstance(receiver, UserValue) else None)
        return sections.element(frame.analysis, receiver, arguments.first, "read", default)
    match receiver:
        case UserValue() | Table() if name in ("items", "keys", "values"):
            return Entries(receiver, name)
        case UserValue():
            return _call_method_of_user_value(frame.analysis, receiver, name)
        case Table() if name == "copy":
            return Table(dict(receiver.entries), list(receiver.overlaid))
        case Table() if name == "update":
            for value in (*arguments.positional, *arguments.spread):
                sections.pour(frame.analysis, receiver, value)
        case Array() if name == "append":
            receiver.items.append(arguments.first)
        case Constant(value=str() as text) if name in _NEW_STRINGS:
            fixed = [constant(one) for one in arguments.positional]
            if None not in fixed and not arguments.named:
                return folded(getattr(text, name), *[one.value for one in fixed if one])
    return UNKNOWN


def _call_method_of_user_value(analysis: Analysis, value: UserValue, name: str) -> Value:
    if name == "copy":
        return value
    if hasattr(str, name):
        key = analysis.records.key(value.path)
        key.used_as.add("text")
        key.is_case_blind |= name in ("lower", "upper")
    return value if name in ("lower", "upper", "strip") else UNKNOWN


def _call_external(frame: Frame, name: str, arguments: Arguments) -> Value:
    module, _, own_name = name.rpartition(".")
    if module == "builtins":
        return _call_builtin(frame, own_name, arguments)
    if own_name in ("copy", "deepcopy") and arguments.positional:
        return either(*[_copied(one) for one in alternatives(arguments.first)])
    if name in _READERS and frame.module.name in _CONFIG_READERS:
        frame.analysis.records.readers.add(name)
        is_config = all(one.path == () for one in user_values(arguments.first))
        return UserValue(()) if is_config else UNKNOWN
    return arguments.first if own_name == "partial" else UNKNOWN


def _copied(value: Value) -> Value:
    return Table(dict(value.entries), list(value.overlaid)) if isinstance(value, Table) else value


def _call_builtin(frame: Frame, name: str, arguments: Arguments) -> Value:
    first = arguments.first
    match name, arguments.positional:
        case (("int" | "float" | "str" | "bool"), _):
            return _cast(frame.analysis, name, first)
        case "dict", _:
            return _dictionary(frame.analysis, arguments)
        case (("list" | "tuple" | "set" | "sorted" | "frozenset"), _):
            return _listed(frame, arguments)
        case "isinstance", (value, kinds):
            _note_kinds(frame.analysis, value, kinds)
        case "getattr", (owner, chosen, *_):
            return _getattr(frame.analysis, owner, chosen)
        case "setattr", (owner, chosen, value):
            fixed = constant(chosen)
            for one in alternatives(owner):
                if isinstance(one, Instance) and fixed:
                    sections.set_attribute(one, str(fixed.value), value)
        case (("map" | "filter"), (function, values)):
            for item in frame.iterate(values)[:MOST_SPLICED]:
                call(frame, function, Arguments((item,)))
        case "enumerate", _:
            return Array([Array([UNKNOWN, item]) for item in frame.iterate(first)])
        case "zip", values:
            return Array([Array([frame.iterate(value)[0] for value in values])])
    return UNKNOWN


def _cast(analysis: Analysis, name: str, value: Value) -> Value:
    for one in user_values(value):
        analysis.records.key(one.path).casts.append(name)
    fixed = constant(value)
    return folded(getattr(builtins, name), fixed.value) if fixed else value


def _dictionary(analysis: Analysis, arguments: Arguments) -> Value:
    sources = (*arguments.positional, *arguments.spread)
    sections_alone = list(user_values(sources[0])) if len(sources) == 1 and not arguments.named else []
    if sections_alone:
        return sections_alone[0]
    table = Table(dict(arguments.named))
    for source in sources:
        sections.pour(analysis, table, source)
    return table


def _listed(frame: Frame, arguments: Arguments) -> Value:
    if not arguments.positional:
        return Array([])
    fixed = constant(arguments.first)
    return Array(frame.iterate(arguments.first)) if fixed and isinstance(fixed.value, dict) else arguments.first


def _note_kinds(analysis: Analysis, value: Value, kinds: Value) -> None:
    named = [kind for one in alternatives(kinds) for kind in (one.items if isinstance(one, Array) else [one])]
    for one in user_values(value):
        noted = analysis.records.key(one.path).kinds
        noted += [kind.name.rsplit(".", 1)[-1] for kind in named if isinstance(kind, External)]


def _getattr(analysis: Analysis, owner: Value, chosen: Value) -> Value:
    fixed = constant(chosen)
    if fixed and isinstance(fixed.value, str):
        return sections.attribute(analysis, owner, fixed.value)
    modules = [one for one in alternatives(owner) if isinstance(one, (Package, External))]
    return either(*[ChosenByUser(module, choice) for module in modules for choice in user_values(chosen)])

"""What a call does: functions of the package are entered, models declare keys; ``foreign`` has all others.

A function is entered once for the same arguments; what it returned then is its value. Functions that nothing of the
user's reaches are entered only where they are short: they may return a name or a default.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.deepspeed import foreign, models, signatures
from tools.extract.deepspeed.classes import is_dataclass
from tools.extract.deepspeed.values import (
    UNKNOWN,
    Array,
    ChosenByUser,
    Class,
    External,
    Function,
    Instance,
    Method,
    ModelField,
    Table,
    UserValue,
    alternatives,
    either,
    holds_user_value,
    user_values,
)

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis, Frame
    from tools.extract.deepspeed.values import FunctionNode, KeyPath, Names, Value

DEEPEST_STACK = 28
DEEPEST_RECURSION = 2
SHORT = 12  # statements
_ENGINES = ("DeepSpeedEngine", "PipelineEngine", "DeepSpeedHybridEngine")  # entry points of their own


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
            return foreign.call_method(frame, receiver, name, arguments)
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
            return foreign.call_function(frame, name, arguments)
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
    constructor = classes.constructor(cls, instance)
    if constructor and cls.name not in _ENGINES and arguments.hold_user_values():
        enter(analysis, constructor, arguments)
    return instance


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


def validated(analysis: Analysis, cls: Class, path: KeyPath) -> Instance:
    """The model of the section at a path."""
    return Instance(cls, fields=models.fields_read_from(analysis, cls, path))


def enter(analysis: Analysis, function: Function, arguments: Arguments) -> Value:
    """Run a function of the package, and return what it returns."""
    if not _is_worth_entering(function, arguments):
        return UNKNOWN
    history = analysis.history
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

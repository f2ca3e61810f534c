"""The parameters of the constructors that get a whole section: ``FusedLamb(parameters, **optimizer_parameters)``.

The guards around the call tell which types lead to it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.deepspeed import models
from tools.extract.deepspeed.classes import is_dataclass
from tools.extract.deepspeed.functions import defaults
from tools.extract.deepspeed.records import NO_DEFAULT, Guard, Spread
from tools.extract.deepspeed.values import (
    Class,
    External,
    Function,
    Table,
    UserValue,
    Value,
    alternatives,
    constant,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.values import Arguments, ChosenByUser, KeyPath

REQUIRED = "$required"  # in place of a default
COMPUTED = "$expr"


class Signature(NamedTuple):
    """The parameters of a callable with their defaults, and whether it takes further ones (``**kwargs``)."""

    parameters: dict[str, Any]
    takes_any: bool


def signature(analysis: Analysis, callee: Class | Function) -> Signature:
    """What a class or function of the package can be called with; ``self`` is not a parameter."""
    if isinstance(callee, Function):
        return _of_function(analysis, callee, 1 if callee.receiver else 0)
    constructor = analysis.classes.constructor(callee)
    if constructor:
        return _of_function(analysis, constructor, 1)
    if not is_dataclass(callee):
        return Signature({}, takes_any=True)
    fields = models.fields(analysis, callee)
    defaults = {field.name: REQUIRED if field.default is NO_DEFAULT else field.default for field in fields}
    return Signature(defaults, takes_any=False)


def _of_function(analysis: Analysis, function: Function, bound: int) -> Signature:
    declared = function.node.args
    names = [one.arg for one in (*declared.posonlyargs, *declared.args)][bound:]
    names += [one.arg for one in declared.kwonlyargs]
    written = defaults(declared)
    values = {name: analysis.evaluate(function.module, node) for name, node in written.items()}
    return Signature({name: _default(values.get(name)) for name in names}, declared.kwarg is not None)


def _default(value: Value | None) -> Any:
    if value is None:
        return REQUIRED
    fixed = constant(value)
    return fixed.value if fixed else COMPUTED


def note_spread(analysis: Analysis, callee: Class | Function | External, arguments: Arguments) -> None:
    """Record the sections among the arguments with two stars."""
    for path in _sections(arguments, with_tables=isinstance(callee, (Class, External))):
        guards = tuple(analysis.records.guards)
        if isinstance(callee, External):
            analysis.records.spread(Spread(path, guards, callee.name, None, takes_any=True))
        else:
            known = signature(analysis, callee)
            open_places = list(known.parameters)[len(arguments.positional) :]
            parameters = {name: known.parameters[name] for name in open_places if name not in arguments.named}
            name = f"{callee.module.name}.{callee.name}"
            analysis.records.spread(Spread(path, guards, name, parameters, known.takes_any))


def _sections(arguments: Arguments, *, with_tables: bool) -> Iterator[KeyPath]:
    for spread in (one for value in arguments.spread for one in alternatives(value)):
        if isinstance(spread, UserValue) and spread.path:
            yield spread.path
        elif isinstance(spread, Table) and with_tables:
            yield from (section.path for section in spread.overlaid if section.path)


def note_choice(analysis: Analysis, callee: ChosenByUser, arguments: Arguments) -> None:
    """``getattr(lr_schedules, scheduler_type)(optimizer, **parameters)``: every scheduler of the module is a type."""
    if isinstance(callee.module, External):
        chosen = External(f"{callee.module.name}.<{'.'.join(callee.choice.path)}>")
        note_spread(analysis, chosen, arguments)
        return
    module = analysis.sources.module(callee.module.name)
    for node in module.names.values() if module else ():
        if module and isinstance(node, ast.ClassDef):
            cls = Class(module, node)
            if analysis.classes.member(cls, "step") and analysis.classes.constructor(cls):
                analysis.records.guards.append(Guard(callee.choice.path, [cls.name], holds=True))
                note_spread(analysis, cls, arguments)
                analysis.records.guards.pop()

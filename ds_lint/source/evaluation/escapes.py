"""Values that code gets which does not show, and functions that it may call."""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes
from ds_lint.source.evaluation.functions import run_function
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Dict,
    List,
    Method,
    ModuleError,
    ModuleFunction,
    NotKnown,
    Object,
    Slot,
    Undecided,
    View,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Class, Value


def generic_object(run: Evaluator, cls: Class) -> Object:
    """An object of a class, whoever makes it."""
    if cls in run.generic:
        return run.generic[cls]
    one = run.generic[cls] = Object(cls, run.state.new_dict(cls.node), cls.node)
    try:
        maker = classes.find(cls, "__init__")
    except NotKnown:
        maker = None
    if not cls.is_plain or cls.kind in ("dataclass", "namedtuple", "enum", "number"):
        run.state.open(one.attributes)
    if cls.kind in ("enum", "number"):
        for name in ("_value_", "_name_"):
            run.state.put(one.attributes, name, Slot(Undecided(cls.node), cls.node, is_fixed=True))
    if cls.kind in ("dataclass", "namedtuple"):
        for field in classes.fields_of(cls):
            run.state.put(one.attributes, field.name, Slot(Undecided(cls.node), cls.node, is_fixed=True))
    if maker is not None and isinstance(maker.value, ModuleFunction):
        function = maker.value
        with contextlib.suppress(ModuleError):
            run_function(run, function, unknown_arguments(function, one), function.node, is_entry=True)
    return one


def unknown_arguments(function: ModuleFunction, receiver: Object | None) -> Arguments:
    """Arguments that do not show, for a function whose callers do not."""
    node = function.node
    arguments = node.args
    slots: list[Slot] = []
    for index, argument in enumerate([*arguments.posonlyargs, *arguments.args]):
        if index == 0 and receiver is not None:
            slots.append(Slot(receiver, argument, is_fixed=True))
        else:
            slots.append(Slot(Undecided(argument), argument, is_fixed=True))
    named = {one.arg: Slot(Undecided(one), one, is_fixed=True) for one in arguments.kwonlyargs}
    return Arguments(slots, named, is_open=True)


def soften_all(run: Evaluator, arguments: Arguments) -> None:
    """Note that code which does not show has got the arguments of a call."""
    for slot in (*arguments.positional, *arguments.keywords.values()):
        soften(run, slot.value)


def soften(run: Evaluator, value: Value) -> None:
    """Note that code which does not show has got a value, and may add keys to it."""
    pending: list[tuple[Value, bool]] = [(value, True)]
    seen: set[int] = set()
    while pending:
        current, is_top = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, Undecided):
            pending += [(one, is_top) for one in current.candidates]
        elif isinstance(current, Dict):
            run.state.open(current)
            pending += [(slot.value, False) for slot in current.content.entries.values()]
        elif isinstance(current, List):
            pending += [(slot.value, False) for slot in current.content or ()]
            if is_top and current.kind in ("list", "set"):
                run.state.blur_list(current)
        elif isinstance(current, View):
            pending.append((current.cell, is_top))
        elif isinstance(current, ModuleFunction):
            _let_go(run, current)
        elif isinstance(current, Bound):
            pending.append((current.function, is_top))
            pending += [(slot.value, False) for slot in current.arguments if not isinstance(slot.value, Object)]
        elif isinstance(current, Method):
            pending.append((current.receiver, is_top))


def _let_go(run: Evaluator, function: ModuleFunction) -> None:
    """Note that a function may be called from now on."""
    if function in run.escaping or isinstance(function.node, ast.Lambda):
        return
    run.escaping.add(function)
    receiver = generic_object(run, function.owner) if function.owner is not None else None

    def once() -> None:
        run_function(run, function, unknown_arguments(function, receiver), function.node, is_entry=True)

    run.perhaps(once)

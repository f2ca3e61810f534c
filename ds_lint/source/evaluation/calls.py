"""Calls: what they pass, and what runs."""

from __future__ import annotations

import ast
import contextlib
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes, library, methods
from ds_lint.source.evaluation.assignments import slot_of
from ds_lint.source.evaluation.escapes import soften_all
from ds_lint.source.evaluation.functions import run_function
from ds_lint.source.evaluation.names import lookup
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Dict,
    Known,
    LibraryName,
    Method,
    ModuleFunction,
    NotKnown,
    Object,
    Super,
    Undecided,
    Wrapped,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Environment, Place, Slot, Value

_READING_METHODS = frozenset(
    {"copy", "get", "items", "keys", "values", "__contains__", "__getitem__", "index", "count"}
)


def call_expression(run: Evaluator, node: ast.Call) -> Value:
    """The value of ``f(a)``."""
    if isinstance(node.func, ast.Name) and node.func.id == "super" and lookup(run, "super")[0] is None:
        return _super(run, node)
    function = run.evaluate(node.func)
    if function == LibraryName("asyncio.run"):
        run.awaited.update(node.args)
        return arguments_of(run, node).positional[0].value
    arguments = arguments_of(run, node)
    is_own = isinstance(function, (ModuleFunction, Method)) or (
        isinstance(function, Bound) and isinstance(function.function, ModuleFunction)
    )
    is_library = isinstance(function, LibraryName) and function.name in library.FUNCTIONS
    if run.watch is not None and (node in run.reading or not (is_own or is_library)):
        run.watch(node, arguments)
    if isinstance(function, LibraryName) and function.name in (
        "builtins.exec",
        "builtins.eval",
        "builtins.globals",
    ):
        if function.name != "builtins.globals":
            run.state.blur(run.globals.variables)
        return Undecided(node, (run.globals.variables,))
    if isinstance(function, LibraryName) and function.name == "builtins.vars" and not node.args:
        return Undecided(node, (run.frame.environment.variables,))
    if isinstance(function, LibraryName) and function.name == "builtins.locals":
        return methods.copied(run, run.frame.environment.variables, node)
    if node in run.reading:
        if isinstance(function, Class):
            with contextlib.suppress(NotKnown):
                return classes.make(run, function, arguments, node)
        run.risk()
        return Undecided(node)
    value = run.call(function, arguments, node)
    if isinstance(value, Dict) and isinstance(function, LibraryName) and value.place is node:
        run.made.setdefault(node, []).append(value)
    return value


def _super(run: Evaluator, node: ast.Call) -> Value:
    environment: Environment | None = run.frame.environment
    while environment is not None and environment.kept is None:
        environment = environment.outer
    if environment is None or environment.kept is None or node.args or environment.local is None:
        raise NotKnown
    receiver = next(iter(environment.variables.content.entries.values()), None)
    if receiver is None or not isinstance(receiver.value, (Object, Class)):
        raise NotKnown
    return Super(environment.kept, receiver.value)


def arguments_of(run: Evaluator, node: ast.Call) -> Arguments:
    """What a call passes."""
    positional: list[Slot] = []
    is_open = False
    for one in node.args:
        if isinstance(one, ast.Starred):
            items = run.items(run.evaluate(one.value))
            if items is None:
                is_open = True
            else:
                positional += items
        else:
            positional.append(slot_of(run, one))
    keywords: dict[str, Slot] = {}
    for keyword in node.keywords:
        if keyword.arg is not None:
            keywords[keyword.arg] = slot_of(run, keyword.value).with_key(keyword)
            continue
        value = run.evaluate(keyword.value)
        if isinstance(value, Object):
            raise NotKnown
        if not isinstance(value, Dict) or value.is_lost or value.content.is_open:
            is_open = True
        if isinstance(value, Dict) and not value.is_lost:
            keywords |= {key: slot for key, slot in value.content.entries.items() if isinstance(key, str)}
    return Arguments(positional, keywords, is_open)


def call(run: Evaluator, function: Value, arguments: Arguments, place: Place) -> Value:
    """What a call returns; raises NotKnown if that does not show."""
    if isinstance(function, Bound):
        keywords = {**dict(function.keywords), **arguments.keywords}
        whole = Arguments([*function.arguments, *arguments.positional], keywords, arguments.is_open)
        return run.call(function.function, whole, place)
    if isinstance(function, ModuleFunction):
        return run_function(run, function, arguments, place)
    if isinstance(function, Class):
        try:
            return classes.make(run, function, arguments, place)
        except NotKnown:
            soften_all(run, arguments)
            raise
    if isinstance(function, Wrapped) and function.kind == "staticmethod":
        return run.call(function.function, arguments, place)
    if isinstance(function, Method):
        return _call_method(run, function, arguments, place)
    if isinstance(function, LibraryName):
        return _call_library(run, function.name, arguments, place)
    if isinstance(function, Object):
        return run.call(run.attribute(function, "__call__", place), arguments, place)
    run.risk()
    if isinstance(function, Undecided):
        for one in function.candidates:
            if isinstance(one, (ModuleFunction, Bound, Method, Class)):
                run.perhaps(lambda one=one: quietly(run, one, arguments, place))  # type: ignore[misc]
            elif isinstance(one, Dict):
                run.state.weaken_all(one)
    soften_all(run, arguments)
    return Undecided(place, _mutable(run, arguments))


def quietly(run: Evaluator, function: Value, arguments: Arguments, place: Place) -> None:
    """Call a function whose result does not matter."""
    with contextlib.suppress(NotKnown):
        run.call(function, arguments, place)


def _mutable(run: Evaluator, arguments: Arguments) -> tuple[Value, ...]:
    values = [slot.value for slot in (*arguments.positional, *arguments.keywords.values())]
    return tuple(methods.cells_of(values))[:6]


def _call_method(run: Evaluator, method: Method, arguments: Arguments, place: Place) -> Value:
    receiver = method.receiver
    if isinstance(receiver, Undecided):
        run.risk()
        if method.name not in _READING_METHODS:
            for one in receiver.candidates:
                _perhaps_method(run, one, method, arguments, place)
            soften_all(run, arguments)
        return Undecided(place, methods.inner_cells(receiver))
    if isinstance(receiver, Known) and method.name == "open":
        return Undecided(place)
    try:
        return methods.call(run, receiver, method.name, arguments, place)
    except NotKnown:
        run.risk()
        inner = () if method.name in ("items", "keys") else methods.inner_cells(receiver)
        return Undecided(place, inner)


def _perhaps_method(run: Evaluator, one: Value, method: Method, arguments: Arguments, place: Place) -> None:
    def once() -> None:
        with contextlib.suppress(NotKnown):
            methods.call(run, one, method.name, arguments, place)

    run.perhaps(once)


def _call_library(run: Evaluator, name: str, arguments: Arguments, place: Place) -> Value:
    known = library.FUNCTIONS.get(name) if name not in run.patched else None
    of_text = name.removeprefix("builtins.str.")
    if of_text != name and arguments.positional and isinstance(arguments.positional[0].value, Known):
        text, *rest = arguments.positional
        return methods.call(run, text.value, of_text, Arguments(rest, *arguments[1:]), place)
    if known is not None:
        with contextlib.suppress(NotKnown):
            return known(run, arguments, place)
    run.risk()
    if not library.only_reads(name) and known is None:
        soften_all(run, arguments)
        return Undecided(place, _mutable(run, arguments))
    return Undecided(place, _mutable(run, arguments) if known is not None else ())

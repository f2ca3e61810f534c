"""How a function of the package is entered: once for the same arguments, and what it returned then is its value.

Functions that nothing of the user's reaches are entered only where they are short: they may return a name or a default.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.extract.deepspeed.values import UNKNOWN, Array, Instance, Table, UserValue, alternatives, either

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.values import Arguments, Function, Names, Value

DEEPEST_STACK = 28
DEEPEST_RECURSION = 2
SHORT = 12  # statements


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

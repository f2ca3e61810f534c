"""The calls of a script that conditions of advisories ask about: ``schemas/advisories.json``."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.advisories import decisive_calls
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import last_name
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.script_modules import ScriptModule


class AdvisedCall(NamedTuple):
    """A call by the last name of what is called, or all of it, with its keywords; ``is_open`` allows for others."""

    name: str
    keywords: tuple[tuple[str, Any], ...]
    is_open: bool


class AdvisedCalls(NamedTuple):
    """The calls, in the script and in the modules of the project that it imports."""

    calls: tuple[AdvisedCall, ...] = ()

    def has(self, name: str) -> bool:
        """Whether something of this name is called."""
        return any(one.name == name for one in self.calls)

    def keyword(self, function: str, name: str) -> Any:
        """The constant that the calls of a function give a keyword; None if none does, UNKNOWN if they do not agree."""
        values = [_given(one, name) for one in self.calls if one.name == function]
        return None if not values else values[0] if all(one == values[0] for one in values) else UNKNOWN


def _given(call: AdvisedCall, name: str) -> Any:
    return dict(call.keywords).get(name, UNKNOWN if call.is_open else None)


def advised_calls(module: ScriptModule) -> AdvisedCalls:
    """The calls of a script, and of the modules that it imports from."""
    names = decisive_calls()
    calls = (one for each in module.with_imported(names) for one in _of(each, names))
    return AdvisedCalls(tuple(dict.fromkeys(calls)))


def _of(module: ScriptModule, names: frozenset[str]) -> Iterator[AdvisedCall]:
    for call in module.names.calls:
        for name in {last_name(call), dotted_name(call.func)} & names:
            given = tuple((one.arg, _constant(one.value)) for one in call.keywords if one.arg is not None)
            is_open = any(one.arg is None for one in call.keywords)
            yield AdvisedCall(name, given, is_open)


def _constant(node: ast.expr) -> Any:
    """The value of a literal: True for a list or a dict that has something in it, which a condition tells from none."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError):
        return UNKNOWN
    return value if value is None or isinstance(value, (bool, int, float, str)) else bool(value)

"""Calls of what the package does not define: methods of builtin values, builtins, a few functions of other libraries.

Anything that is not here returns something unknown.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from tools.extract.deepspeed import sections
from tools.extract.deepspeed.values import (
    UNKNOWN,
    Arguments,
    Array,
    ChosenByUser,
    Constant,
    Entries,
    External,
    Instance,
    Package,
    Table,
    UserValue,
    alternatives,
    constant,
    either,
    folded,
    user_values,
)

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis, Frame
    from tools.extract.deepspeed.values import Value

MOST_SPLICED = 8
_READERS = ("json.load", "json.loads", "hjson.load", "hjson.loads")
_CONFIG_READERS = ("deepspeed.runtime.config", "deepspeed.compression.compress", "deepspeed.compression.helper")
_NEW_STRINGS = ("lower", "upper", "strip", "replace", "startswith", "endswith", "format")


def call_method(frame: Frame, receiver: Value, name: str, arguments: Arguments) -> Value:
    """A method of a section, a table, an array or a constant."""
    if name in ("get", "pop", "setdefault") and arguments.positional and not isinstance(receiver, (Array, Constant)):
        default = arguments.default or (Constant(None) if name == "get" and isinstance(receiver, UserValue) else None)
        return sections.element(frame.analysis, receiver, arguments.first, default)
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


def call_function(frame: Frame, name: str, arguments: Arguments) -> Value:
    """A builtin, or a function of another library; ``name`` is dotted."""
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
            for item in sections.iterate(frame.analysis, values)[:MOST_SPLICED]:
                frame.analysis.interpreter.call(frame, function, Arguments((item,)))
        case "enumerate", _:
            return Array([Array([UNKNOWN, item]) for item in sections.iterate(frame.analysis, first)])
        case "zip", values:
            return Array([Array([sections.iterate(frame.analysis, value)[0] for value in values])])
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
    return (
        Array(sections.iterate(frame.analysis, arguments.first))
        if fixed and isinstance(fixed.value, dict)
        else arguments.first
    )


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

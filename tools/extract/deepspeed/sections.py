"""What the parts of a value are: attributes of objects, elements of sections, tables and arrays.

Reading an element of a ``UserValue`` is what everything is about: it is recorded, and its result is the ``UserValue``
one level below.
"""

from __future__ import annotations

import ast
import itertools
import operator
import sys
from typing import TYPE_CHECKING, Any

from tools.extract.deepspeed import models
from tools.extract.deepspeed.functions import enter
from tools.extract.deepspeed.records import NO_DEFAULT
from tools.extract.deepspeed.values import (
    ANY_KEY,
    ITEM,
    UNKNOWN,
    Arguments,
    Array,
    Class,
    Constant,
    Either,
    Entries,
    External,
    Function,
    Instance,
    Method,
    Package,
    Table,
    UserValue,
    alternatives,
    constant,
    either,
    folded,
    from_python,
    holds_user_value,
    user_values,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.extract.deepspeed.analysis import Analysis
    from tools.extract.deepspeed.classes import Member
    from tools.extract.deepspeed.values import Value

MOST_ENTRIES = 4  # of a table that is read with a name that is not known

MOST_ITERATIONS = 80


def attribute(analysis: Analysis, value: Value, name: str) -> Value:
    """``value.name``."""
    return either(*[_attribute(analysis, one, name) for one in alternatives(value)])


def _attribute(analysis: Analysis, value: Value, name: str) -> Value:
    match value:
        case Package(name=package):
            return analysis.member_of(package, name)
        case External(name="sys") if name == "maxsize":
            return Constant(sys.maxsize)
        case External(name=prefix):
            return External(f"{prefix}.{name}")
        case Class():
            if analysis.classes.is_enumeration(value) and name in (members := analysis.classes.enumeration(value)):
                return Constant(members[name][0])
            member = analysis.classes.member(value, name)
            return _member(analysis, member, None) if member else UNKNOWN
        case Instance():
            return _attribute_of_instance(analysis, value, name)
        case UserValue() | Constant() if name == "value":
            return value  # of an enumeration's member
        case UserValue() | Table() | Array() | Constant():
            return Method(value, name)
        case _:
            return UNKNOWN


def _attribute_of_instance(analysis: Analysis, instance: Instance, name: str) -> Value:
    if name in instance.attributes:
        return instance.attributes[name]
    if name in instance.fields:
        return _field(analysis, instance, name)
    member = analysis.classes.member(instance.cls, name)
    if member is None:
        return UNKNOWN
    value = _member(analysis, member, instance)
    if isinstance(value, Function) and _is_decorated(member, "property"):
        return enter(analysis, value, Arguments())
    return value


def _field(analysis: Analysis, instance: Instance, name: str) -> Value:
    """A section of a validated model is a model itself; anything else is what the user wrote."""
    read_from = instance.fields[name]
    if read_from.model is None:
        return UserValue(read_from.path)
    section = Instance(read_from.model, fields=models.fields_read_from(analysis, read_from.model, read_from.path))
    instance.attributes[name] = section
    return section


def _member(analysis: Analysis, member: Member, instance: Instance | None) -> Value:
    owner, node = member
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        bound_to = owner if _is_decorated(member, "classmethod") else instance
        receiver = None if _is_decorated(member, "staticmethod") else bound_to
        return Function(owner.module, node, owner, receiver, owner.closure)
    if isinstance(node, ast.ClassDef):
        return Class(owner.module, node)
    return analysis.evaluate(owner.module, node.value, owner.closure) if node.value else UNKNOWN


def _is_decorated(member: Member, name: str) -> bool:
    decorators = getattr(member.node, "decorator_list", ())
    return any(name in ast.unparse(decorator) for decorator in decorators)


def set_attribute(instance: Instance, name: str, value: Value) -> None:
    """``instance.name = value``; the value may be any that it is ever given, since methods run in any order."""
    before = instance.attributes.get(name, UNKNOWN)
    instance.attributes[name] = value if before == Constant(None) else either(before, value)


def element(analysis: Analysis, value: Value, key: Value, default: Value | None = None) -> Value:
    """``value[key]``, or ``value.get(key, default)``."""
    parts = [part for one in alternatives(value) for part in _elements(analysis, one, key, default)]
    return either(*parts)


def _elements(analysis: Analysis, value: Value, key: Value, default: Value | None) -> list[Value]:
    if isinstance(value, UserValue) and isinstance(key, Either) and all(map(constant, key.alternatives)):
        return [part for one in key.alternatives for part in _elements(analysis, value, one, default)]
    fixed = constant(key)
    name = fixed.value if fixed else None
    match value:
        case UserValue(path=path):
            if isinstance(name, str):
                return _read(analysis, value, name, default)
            return [UserValue((*path, ITEM if isinstance(name, int) else ANY_KEY))]
        case Table(entries=entries, overlaid=overlaid):
            if fixed is None or not _is_scalar(name):
                return list(entries.values())[:MOST_ENTRIES]
            own = [entries[name]] if name in entries else [] if default is None else [default]
            if not isinstance(name, str):
                return own
            return own + [part for section in overlaid for part in _read(analysis, section, name, default)]
        case Array(items=items) if isinstance(name, int) and -len(items) <= name < len(items):
            return [items[name]]
        case Constant(value=whole) if fixed:
            return [folded(operator.getitem, whole, name)]
    return []


def _read(analysis: Analysis, section: UserValue, name: str, default: Value | None) -> list[Value]:
    path = (*section.path, name)
    analysis.records.read(path, "read")
    if default is None:
        return [UserValue(path)]
    if not any(user_values(default)):  # that would be another key's value, whatever it is
        for one in alternatives(default):
            fixed = constant(one)
            if fixed:
                analysis.records.read(path, "read", fixed.value)
    return [UserValue(path)] if default == Constant(None) else [UserValue(path), default]


def _is_scalar(name: Any) -> bool:
    return name is None or isinstance(name, (str, int, float))


def set_item(analysis: Analysis, container: Value, key: Value, value: Value) -> None:
    """``container[key] = value``."""
    fixed = constant(key)
    if fixed and isinstance(fixed.value, str):
        for section in [container] if isinstance(container, UserValue) else getattr(container, "overlaid", ()):
            analysis.records.write((*section.path, fixed.value))
    if not isinstance(container, Table):
        return
    if fixed and _is_scalar(fixed.value):
        before = container.entries.get(fixed.value, UNKNOWN)
        container.entries[fixed.value] = either(before, value) if holds_user_value(before) else value
    else:  # for name, value in section.items(): table[name] = value
        for one in user_values(value):
            if one.path[-1:] == (ANY_KEY,):
                pour(analysis, container, UserValue(one.path[:-1]))


def pour(analysis: Analysis, table: Table, value: Value) -> None:
    """``table.update(value)``: what the table holds already are the defaults of the section that is poured over it."""
    for one in alternatives(value):
        if isinstance(one, Table):
            table.entries |= one.entries
            table.overlaid += [section for section in one.overlaid if section not in table.overlaid]
        elif isinstance(one, UserValue):
            if one not in table.overlaid:
                table.overlaid.append(one)
            analysis.records.treat(one.path, "open")
            for name, entry in table.entries.items():
                if isinstance(name, str) and not holds_user_value(entry):
                    default = constant(entry)
                    analysis.records.read((*one.path, name), "overlaid", default.value if default else NO_DEFAULT)


def iterate(analysis: Analysis, value: Value) -> list[Value]:
    """What a loop over the value runs over."""
    items = [item for one in alternatives(value) for item in _items(analysis, one)]
    return items or [UNKNOWN]


def _items(analysis: Analysis, value: Value) -> list[Value]:
    match value:
        case Array(items=items):
            return items[:MOST_ITERATIONS]
        case Constant(value=list() | tuple() | dict() as fixed):
            return [from_python(item) for item in itertools.islice(fixed, MOST_ITERATIONS)]
        case Table(entries=entries, overlaid=overlaid):
            unknown = [UNKNOWN] if overlaid else []
            return [*map(Constant, itertools.islice(entries, MOST_ITERATIONS)), *unknown]
        case Entries(of=of, part=part):
            return [Array(list(pair)) if part == "items" else pair[part == "values"] for pair in _pairs(analysis, of)]
        case UserValue(path=path):
            analysis.records.key(path).used_as.add("array")
            return [UserValue((*path, ITEM))]
        case Class() if analysis.classes.is_enumeration(value):
            return [from_python(member) for member in analysis.classes.accepted(value)]
        case _:
            return [UNKNOWN]


def _pairs(analysis: Analysis, of: UserValue | Table) -> Iterator[tuple[Value, Value]]:
    if isinstance(of, Table):
        for name, entry in itertools.islice(list(of.entries.items()), MOST_ITERATIONS):
            yield Constant(name), entry
    else:
        analysis.records.treat(of.path, "open")
    for section in of.overlaid if isinstance(of, Table) else [of]:
        yield UNKNOWN, UserValue((*section.path, ANY_KEY))

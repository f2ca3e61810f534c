"""Classes of the module and their objects: attributes, dataclasses, named tuples and enumerations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Dict,
    Field,
    Known,
    LibraryName,
    List,
    ModuleError,
    ModuleFunction,
    NotKnown,
    Object,
    Slot,
    Undecided,
    View,
    Wrapped,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value

# Bases that add nothing to the attributes that a class and its __init__ set.
PLAIN_BASES = frozenset({"abc.ABC", "builtins.object", "typing.Generic", "typing.Protocol"})
ENUMS = {
    "enum.Enum": "enum", "enum.IntEnum": "number", "enum.StrEnum": "number",
}  # fmt: skip


def order_of(cls: Class) -> list[Class]:
    """The order in which classes are searched for an attribute."""
    lists = [list(base.order) for base in cls.bases if isinstance(base, Class)]
    lists.append([base for base in cls.bases if isinstance(base, Class)])
    found = [cls]
    while lists := [one for one in lists if one]:
        head = next((one[0] for one in lists if not any(one[0] in other[1:] for other in lists)), None)
        if head is None:
            raise ModuleError(TypeError)
        found.append(head)
        lists = [[one for one in line if one is not head] for line in lists]
    return found


def find(cls: Class, name: str, *, after: Class | None = None) -> Slot | None:
    """What a class, or one that it inherits from, has under a name; raises NotKnown if that does not show."""
    order = cls.order if after is None else cls.order[cls.order.index(after) + 1 :]
    for one in order:
        try:
            slot = methods.entry(one.attributes, name)
        except NotKnown:
            if one.attributes.content.entries.get(name) is not None or one.attributes.is_lost:
                raise
            slot = None
        if slot is not None:
            return slot
    return None


def class_attribute(run: Evaluator, cls: Class, name: str, place: Place) -> Value:
    """An attribute of a class."""
    if name in ("__name__", "__qualname__"):
        return Known(cls.name, place)
    if name == "__dict__":
        return methods.copied(run, cls.attributes, place)
    if name == "__members__" and cls.members:
        made = run.state.new_dict(place)
        for member in cls.members:
            key = _member(member, "_name_")
            run.state.put(made, key.value, Slot(member, place, place, is_fixed=True))
        return made
    slot = find(cls, name)
    if slot is None:
        if cls.is_plain and not cls.kind and not name.startswith("__"):
            raise ModuleError(AttributeError)
        raise NotKnown
    value = slot.value
    if isinstance(value, Wrapped):
        if value.kind == "classmethod":
            return Bound(value.function, (Slot(cls, place),))
        return value.function if value.kind == "staticmethod" else value
    if is_descriptor(value) or not (cls.is_plain or isinstance(value, ModuleFunction)):
        raise NotKnown  # a class that does not show may make something else of its attributes
    return value


def is_descriptor(value: Value) -> bool:
    """Whether an attribute of a class decides itself what its objects have."""
    if not isinstance(value, Object):
        return False
    return any(find(value.cls, name) is not None for name in ("__get__", "__set__"))


def object_attribute(run: Evaluator, one: Object, name: str, place: Place) -> Value:
    """An attribute of an object."""
    cls = one.cls
    if name == "__dict__":
        return one.attributes
    if name == "__class__":
        return cls
    slot = find(cls, name)
    if find(cls, "__getattribute__") is not None or (slot is not None and is_descriptor(slot.value)):
        raise NotKnown
    if slot is not None and isinstance(slot.value, Wrapped) and slot.value.kind == "descriptor":
        raise NotKnown
    if slot is not None and isinstance(slot.value, Wrapped) and slot.value.kind == "property":
        return run.call(slot.value.function, Arguments([Slot(one, place)], {}), place)
    if cls.kind in ("enum", "number") and name in ("value", "name"):
        return _member(one, f"_{name}_")
    if one.attributes.content.entries.get(name) is not None or one.attributes.is_lost:
        own = methods.entry(one.attributes, name)
        assert own is not None  # noqa: S101 - otherwise NotKnown is raised
        return own.value
    if slot is None and cls.kind == "namedtuple" and name in ("_asdict", "_replace"):
        return Bound(LibraryName(f"namedtuple.{name}"), (Slot(one, place),))
    if slot is None or one.attributes.content.is_open:
        if slot is not None and isinstance(slot.value, (ModuleFunction, Wrapped)):
            return _bound(one, slot.value, place)
        is_known = cls.is_plain and find(cls, "__getattr__") is None and not one.attributes.content.is_open
        raise ModuleError(AttributeError) if is_known and not name.startswith("__") else NotKnown
    return _bound(one, slot.value, place)


def _bound(one: Object, value: Value, place: Place) -> Value:
    if isinstance(value, ModuleFunction):
        return Bound(value, (Slot(one, place),))
    if isinstance(value, Wrapped):
        if value.kind == "classmethod":
            return Bound(value.function, (Slot(one.cls, place),))
        return value.function
    return value


def _member(one: Object, name: str) -> Known:
    slot = methods.entry(one.attributes, name)
    if slot is None:
        raise NotKnown
    return slot.value  # type: ignore[return-value]  # or what the member is, which is returned as it is


def make(run: Evaluator, cls: Class, arguments: Arguments, place: Place) -> Value:
    """A new object; raises NotKnown if it does not show how it is made."""
    if cls.kind in ("enum", "number"):
        return _member_of_value(run, cls, arguments)
    if find(cls, "__new__") is not None:
        raise NotKnown
    one = Object(cls, run.state.new_dict(place), place)
    maker = find(cls, "__init__")
    if cls.kind in ("dataclass", "namedtuple") and (maker is None or _is_inherited(cls)):
        _fill(run, one, arguments, place)
        after = find(cls, "__post_init__")
        if after is not None and cls.kind == "dataclass":
            run.call(after.value, Arguments([Slot(one, place)], {}), place)
        return one
    if maker is not None:
        if not cls.is_plain:
            run.state.open(one.attributes)
        run.call(maker.value, Arguments([Slot(one, place), *arguments.positional], *arguments[1:]), place)
        return one
    if not cls.is_plain:
        raise NotKnown
    if arguments.positional or arguments.keywords:
        raise ModuleError(TypeError)
    return one


def _is_inherited(cls: Class) -> bool:
    """Whether the fields of a dataclass make its ``__init__``, although a base has one of its own."""
    for one in cls.order:
        if one.attributes.content.entries.get("__init__") is not None:
            return False
        if one.kind == "dataclass":
            return True
    return False


def fields_of(cls: Class) -> list[Field]:
    """The fields of a dataclass, those of its bases first."""
    found: dict[str, Field] = {}
    for one in reversed(cls.order):
        for field in one.fields:
            found[field.name] = field
    return list(found.values())


def _fill(run: Evaluator, one: Object, arguments: Arguments, place: Place) -> None:
    if not one.cls.is_plain:
        raise NotKnown
    fields = fields_of(one.cls)
    names = [field.name for field in fields if field.takes and not field.is_keyword]
    if len(arguments.positional) > len(names):
        raise ModuleError(TypeError)
    given = {**dict(zip(names, arguments.positional, strict=False)), **arguments.keywords}
    taken = {field.name for field in fields if field.takes}
    if not given.keys() <= taken and not arguments.is_open:
        raise ModuleError(TypeError)
    for field in fields:
        slot = given.get(field.name)
        if slot is None and arguments.is_open:
            slot = Slot(Undecided(place), place)
        if slot is None and field.factory is not None:
            slot = Slot(run.call(field.factory, Arguments([], {}), place), place, is_fixed=True)
        if slot is None:
            slot = field.default
        if slot is None:
            if field.takes:
                raise ModuleError(TypeError)
            continue
        methods.put(run, one.attributes, field.name, slot)


def _member_of_value(run: Evaluator, cls: Class, arguments: Arguments) -> Value:
    if len(arguments.positional) != 1 or arguments.keywords or arguments.is_open:
        raise NotKnown
    for member in cls.members:
        is_equal = run.equal(_member(member, "_value_"), arguments.positional[0].value)
        if is_equal is None:
            raise NotKnown
        if is_equal:
            return member
    raise ModuleError(ValueError)


def as_dict(run: Evaluator, value: Value, place: Place, *, is_top: bool = True) -> Value:
    """What ``dataclasses.asdict`` makes of an object: its fields, and copies of what is in them."""
    if isinstance(value, Object):
        if value.cls.kind == "dataclass":
            made = run.state.new_dict(place)
            for field in fields_of(value.cls):
                slot = methods.entry(value.attributes, field.name)
                if slot is None:
                    raise NotKnown
                run.state.put(made, field.name, _below(run, slot))
            return made
        if is_top:
            raise NotKnown
        return value
    if isinstance(value, Dict):
        if value.is_lost:
            raise NotKnown
        made = run.state.new_dict(value.place, is_open=value.content.is_open)
        for key, slot in value.content.entries.items():
            methods.put(run, made, key, _below(run, slot))
        return made
    if isinstance(value, List) and value.kind in ("list", "tuple"):
        items = None if value.content is None else [_below(run, slot) for slot in value.content]
        return run.state.new_list(value.place, items, value.kind)
    if isinstance(value, (View, List)):
        raise NotKnown
    return value


def _below(run: Evaluator, slot: Slot) -> Slot:
    value = as_dict(run, slot.value, slot.place, is_top=False)
    return Slot(value, slot.place, slot.key_place, is_fixed=slot.is_fixed, may_be_missing=slot.may_be_missing)


def replaced(run: Evaluator, one: Value, changes: Arguments, place: Place) -> Value:
    """What ``dataclasses.replace`` makes."""
    if not isinstance(one, Object) or one.cls.kind not in ("dataclass", "namedtuple"):
        raise NotKnown
    given = dict(changes.keywords)
    for field in fields_of(one.cls):
        if field.takes and field.name not in given:
            slot = methods.entry(one.attributes, field.name)
            if slot is None:
                raise NotKnown
            given[field.name] = slot
    return make(run, one.cls, Arguments([], given, changes.is_open), place)

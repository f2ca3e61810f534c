"""The attributes of values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes, methods
from ds_lint.source.evaluation.operations import lifted
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Dict,
    Known,
    LibraryName,
    List,
    Method,
    ModuleError,
    ModuleFunction,
    NotKnown,
    Object,
    Slot,
    Super,
    Undecided,
    Wrapped,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value


def attribute(run: Evaluator, value: Value, name: str, place: Place) -> Value:  # noqa: PLR0912 - one for each kind
    """An attribute of a value; raises NotKnown if it does not show."""
    if isinstance(value, Object):
        return classes.object_attribute(run, value, name, place)
    if isinstance(value, Class):
        return classes.class_attribute(run, value, name, place)
    if isinstance(value, LibraryName):
        full = f"{value.name}.{name}"
        return _constant_of(run, full, place)
    if isinstance(value, Super):
        slot = None
        cls = value.receiver if isinstance(value.receiver, Class) else value.receiver.cls
        if value.after in cls.order:
            slot = classes.find(cls, name, after=value.after)
        if slot is not None and isinstance(slot.value, (ModuleFunction, Wrapped)):
            function = slot.value.function if isinstance(slot.value, Wrapped) else slot.value
            if isinstance(slot.value, Wrapped) and slot.value.kind == "property":
                return run.call(function, Arguments([Slot(value.receiver, place)], {}), place)
            return Bound(function, (Slot(value.receiver, place),))
        if slot is None and isinstance(value.receiver, Object):
            if cls.is_plain and name in ("__init__", "__init_subclass__", "__post_init__"):
                return LibraryName("builtins.print")  # of object: it does nothing
            run.state.open(value.receiver.attributes)
        raise NotKnown
    if isinstance(value, Undecided):
        if value.attributes is not None:
            found = value.attributes.content.entries.get(name)
            if found is not None and not found.may_be_missing:
                return found.value
        cells = [
            one.content.entries[name].value
            for one in value.candidates
            if isinstance(one, Dict) and name in one.content.entries
        ]
        if any(isinstance(one, (Dict, List)) for one in value.candidates):
            return Method(value, name, place)
        return Undecided(place, tuple(one for one in cells if isinstance(one, (Dict, List))))
    if isinstance(value, Known):
        if isinstance(value.value, (int, float)) and name in ("real", "imag", "numerator", "denominator"):
            return lifted(getattr(value.value, name), place, run.state)
        if hasattr(value.value, name):
            if name in methods.PATH_ATTRIBUTES and not callable(getattr(value.value, name)):
                return lifted(getattr(value.value, name), place, run.state)
            return Method(value, name, place)
        raise ModuleError(AttributeError)
    if isinstance(value, (Dict, List)):
        return Method(value, name, place)
    if isinstance(value, ModuleFunction):
        if name == "__name__" and not isinstance(value.node, ast.Lambda):
            return Known(value.node.name, place)
        slot = None if value.attributes is None else value.attributes.content.entries.get(name)
        if slot is not None and not slot.may_be_missing:
            return slot.value
    raise NotKnown


def _constant_of(run: Evaluator, full: str, place: Place) -> Value:
    """What a name of a library stands for."""
    if full in run.patched:
        raise NotKnown
    import math

    if full in ("math.pi", "math.e", "math.inf"):
        return Known(getattr(math, full.partition(".")[2]), place)
    return LibraryName(full)


def set_attribute(run: Evaluator, value: Value, name: str, slot: Slot) -> None:
    """Give an attribute of a value another one."""
    if isinstance(value, Object):
        found = classes.find(value.cls, name)
        decides = found is not None and (
            isinstance(found.value, (Wrapped, ModuleFunction)) or classes.is_descriptor(found.value)
        )
        if decides or classes.find(value.cls, "__setattr__") is not None:
            run.state.blur(value.attributes)
            return
        run.state.put(value.attributes, name, slot)
    elif isinstance(value, Class):
        run.state.put(value.attributes, name, slot)
    elif isinstance(value, Undecided):
        for one in value.candidates:
            if isinstance(one, Dict):
                run.state.weaken(one, name, slot)
        if value.attributes is None:
            value.attributes = run.state.new_dict(value.place, is_open=True)
        run.state.put(value.attributes, name, slot)
    elif isinstance(value, LibraryName):
        run.patched.add(f"{value.name}.{name}")
    elif isinstance(value, ModuleFunction):
        if value.attributes is None:
            value.attributes = run.state.new_dict(value.node)
        run.state.put(value.attributes, name, slot)

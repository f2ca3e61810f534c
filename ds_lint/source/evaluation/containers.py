"""The items of values: what a loop gets, what is under a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.source.evaluation import classes, methods
from ds_lint.source.evaluation.frames import MOST_ITERATIONS
from ds_lint.source.evaluation.operations import computed, lifted, lowered
from ds_lint.source.evaluation.values import (
    Arguments,
    Class,
    Dict,
    Known,
    List,
    ModuleError,
    NotKnown,
    Object,
    Slot,
    Undecided,
    View,
)

if TYPE_CHECKING:
    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value


def items(run: Evaluator, value: Value) -> list[Slot] | None:
    """What a loop over a value gets; None if that does not show."""
    if isinstance(value, List):
        if value.is_lost or value.content is None or (value.kind == "set" and len(value.content) > 1):
            return None
        items = [*value.content]
        if value.kind == "iterator":
            run.state.write(value, ())
        return None if any(slot.may_be_missing for slot in items) else items
    if isinstance(value, Dict):
        value = View(value, "keys")
    if isinstance(value, View):
        return _items_of_view(run, value)
    if isinstance(value, Known) and isinstance(value.value, (range, str)):
        if value.value[MOST_ITERATIONS:]:  # a range may be too long for len()
            return None
        return [Slot(Known(one, value.place), value.place, is_fixed=True) for one in value.value]
    if isinstance(value, Known) and isinstance(value.value, (int, float, type(None))):
        raise ModuleError(TypeError)
    if isinstance(value, Class) and value.kind in ("enum", "number"):
        return [Slot(member, member.place) for member in value.members]
    if isinstance(value, Object) and value.cls.kind == "namedtuple":
        found = [value.attributes.content.entries.get(field.name) for field in classes.fields_of(value.cls)]
        known = [slot for slot in found if slot is not None and not slot.may_be_missing]
        return known if len(known) == len(found) else None
    return None


def _items_of_view(run: Evaluator, view: View) -> list[Slot] | None:
    cell = view.cell
    entries = cell.content.entries
    if cell.is_lost or cell.content.is_open or any(slot.may_be_missing for slot in entries.values()):
        return None
    if view.what == "values":
        return [*entries.values()]
    found = []
    for key, slot in entries.items():
        place = slot.key_place if slot.key_place is not None else slot.place
        name = Slot(lifted(key, place, run.state), place, is_fixed=slot.is_fixed)
        if view.what == "keys":
            found.append(name)
        else:
            found.append(Slot(run.state.new_list(place, [name, slot], "tuple"), slot.place, is_fixed=True))
    return found


def item(run: Evaluator, container: Value, key: Value, place: Place) -> Value:  # noqa: PLR0912 - one for each kind
    """What is under a key; raises NotKnown if it does not show."""
    if isinstance(container, Dict):
        try:
            known = methods.key_of(key)
            slot = methods.entry(container, known)
        except NotKnown:
            run.risk()
            return Undecided(place, methods.inner_cells(container))
        if slot is not None:
            return slot.value
        if container.factory is not None:
            made = run.call(container.factory, Arguments([], {}), place)
            run.state.put(container, known, Slot(made, place, getattr(key, "place", None), is_fixed=True))
            return made
        raise ModuleError(KeyError)
    if isinstance(container, List):
        try:
            items, index = methods.items_of(container), lowered(key)
        except NotKnown:
            run.risk()
            return Undecided(place, methods.inner_cells(container))
        if container.kind not in ("list", "tuple") or not isinstance(index, int):
            raise NotKnown
        chosen = computed(lambda: items[index])
        if chosen.may_be_missing:
            raise NotKnown
        found: Value = chosen.value
        return found
    if isinstance(container, Known):
        known, index = container.value, lowered(key)
        return lifted(computed(lambda: known[index]), place, run.state)
    if isinstance(container, Undecided):
        return Undecided(place, methods.inner_cells(container))
    if isinstance(container, Object):
        if container.cls.kind == "namedtuple":
            items_ = run.items(container)
            index = lowered(key)
            if items_ is None or not isinstance(index, int):
                raise NotKnown
            return computed(lambda: items_[index]).value  # type: ignore[no-any-return]
        return run.call(run.attribute(container, "__getitem__", place), Arguments([Slot(key, place)], {}), place)
    if isinstance(container, Class):
        if container.kind in ("enum", "number"):
            name = lowered(key)
            for member in container.members:
                if lowered(member.attributes.content.entries["_name_"].value) == name:
                    return member
            raise ModuleError(KeyError)
        return container  # a generic one
    raise NotKnown


def set_item(run: Evaluator, container: Value, key: Value, slot: Slot) -> None:
    """Put a value under a key."""
    if isinstance(container, Dict):
        methods.set_key(run, container, key, slot)
    elif isinstance(container, List):
        try:
            slots, index = [*methods.items_of(container)], lowered(key)
            if not isinstance(index, int):
                raise NotKnown  # noqa: TRY301 - one way out
            computed(lambda: slots.__setitem__(index, slot))
        except NotKnown:
            run.state.blur_list(container)
        else:
            run.state.write(container, tuple(slots))
    elif isinstance(container, Undecided):
        weaken_key(run, container, key, slot)
        run.risk()
    elif isinstance(container, Object):
        try:
            method = run.attribute(container, "__setitem__", None)
            run.call(method, Arguments([Slot(key, slot.place), slot], {}), slot.place)
        except NotKnown:
            run.state.weaken_all(container)


def weaken_key(run: Evaluator, container: Undecided, key: Value, slot: Slot | None) -> None:
    """Note that a key of what a value may be may have been set, or deleted."""
    for one in container.candidates:
        if isinstance(one, Dict):
            try:
                known = methods.key_of(key)
            except NotKnown:
                run.state.blur(one)
            else:
                if slot is not None or known in one.content.entries:
                    run.state.weaken(one, known, slot)
        elif isinstance(one, List):
            run.state.blur_list(one)


def delete_item(run: Evaluator, cell: List, key: Value) -> None:
    """Delete an item of a list."""
    try:
        slots, index = [*methods.items_of(cell)], lowered(key)
        computed(lambda: slots.__delitem__(index))
    except NotKnown:
        run.state.blur_list(cell)
    else:
        run.state.write(cell, tuple(slots))

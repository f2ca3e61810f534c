"""The state of the evaluated module: which content each cell has, with branches that may be taken or not.

A branch is run, its changes are noted and undone, and then the next one is run. What differs behind them is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.source.evaluation.values import (
    Bound,
    Changeable,
    Class,
    Dict,
    Known,
    LibraryName,
    List,
    Method,
    ModuleFunction,
    Object,
    Slot,
    Table,
    Undecided,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Mapping

    from ds_lint.source.evaluation.values import Place, Value

_MOST_CANDIDATES = 6


class Branch(NamedTuple):
    """What a branch has made of the cells that were there before; it made those with the numbers of ``born``."""

    contents: dict[Changeable, Any]
    born: range


class Heap:
    """Cells, and how to get back to what they were."""

    def __init__(self) -> None:
        self.trail: list[tuple[Changeable, Any]] = []
        self.serial = 0

    def new_dict(self, place: Place, entries: Mapping[Any, Slot] | None = None, *, is_open: bool = False) -> Dict:
        """A new dict."""
        self.serial += 1
        return Dict(Table(dict(entries or {}), is_open), place, self.serial)

    def new_list(self, place: Place, items: Iterable[Slot] | None, kind: str = "list") -> List:
        """A new list, tuple, set or iterator."""
        self.serial += 1
        return List(kind, None if items is None else tuple(items), place, self.serial)

    def write(self, cell: Changeable, content: Any) -> None:
        """Give a cell another content."""
        self.trail.append((cell, cell.content))
        cell.content = content

    def put(self, cell: Dict, key: Hashable, slot: Slot) -> None:
        """Set a key."""
        self.write(cell, Table({**cell.content.entries, key: slot}, cell.content.is_open))

    def remove(self, cell: Dict, key: Hashable) -> None:
        """Delete a key, if it is there."""
        left = {name: slot for name, slot in cell.content.entries.items() if name != key}
        self.write(cell, Table(left, cell.content.is_open))

    def open(self, cell: Dict) -> None:
        """Note that a dict may have further keys."""
        if not cell.content.is_open:
            self.write(cell, Table(cell.content.entries, is_open=True))

    def blur(self, cell: Dict, but: Container[Hashable] = ()) -> None:
        """Note that every key of a dict, ``but`` these, may have another value, and that there may be others."""
        entries = {
            key: slot if key in but else _unknown_slot(slot, may_be_missing=True)
            for key, slot in cell.content.entries.items()
        }
        self.write(cell, Table(entries, is_open=True))

    def weaken(self, cell: Dict, key: Hashable, slot: Slot | None) -> None:
        """Note that a key may have been set, or deleted."""
        old = cell.content.entries.get(key)
        self.put(cell, key, join_slots(old, slot, self))

    def blur_list(self, cell: List) -> None:
        """Note that nothing is known of the items of a list."""
        if cell.content is not None:
            self.write(cell, None)

    def weaken_all(self, value: Value) -> None:
        """Note that a value may have been changed in any way, to its ground."""
        pending, seen = [value], set()
        while pending:
            current = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if isinstance(current, Object):
                current = current.attributes
            if isinstance(current, Undecided):
                pending += current.candidates
            elif isinstance(current, Dict):
                pending += [slot.value for slot in current.content.entries.values()]
                self.blur(current)
            elif isinstance(current, List):
                pending += [slot.value for slot in current.content or ()]
                if current.kind != "tuple":
                    self.blur_list(current)

    # Branches.

    def changed_since(self, mark: int) -> dict[Changeable, Any]:
        """The cells that have been written since a place of the trail, with what they were before."""
        before: dict[Changeable, Any] = {}
        for cell, content in self.trail[mark:]:
            before.setdefault(cell, content)
        return before

    def noted(self, mark: int, serial: int) -> Branch:
        """What has been done since a place of the trail."""
        return Branch({cell: cell.content for cell in self.changed_since(mark)}, range(serial + 1, self.serial + 1))

    def undo(self, mark: int) -> None:
        """Go back to a place of the trail."""
        for cell, content in reversed(self.trail[mark:]):
            cell.content = content
        del self.trail[mark:]

    def merge(self, branches: list[Branch]) -> bool:
        """Go on behind branches, one of which has been taken; whether anything has changed by that."""
        changed = False
        cells: dict[Changeable, None] = {cell: None for branch in branches for cell in branch.contents}
        for cell in cells:
            own = [branch for branch in branches if cell.serial in branch.born]
            contents = [branch.contents.get(cell, cell.content) for branch in own or branches]
            joined = contents[0]
            for content in contents[1:]:
                joined = join_contents(joined, content, self)
            if joined is not cell.content:
                is_new = bool(own)  # nothing from before can show it
                changed |= not is_new and not _same_content(joined, cell.content, [one.born for one in branches])
                self.write(cell, joined)
        return changed


def _unknown_slot(slot: Slot, *, may_be_missing: bool = False, is_choice: bool = False) -> Slot:
    value = slot.value
    if isinstance(value, Undecided) and slot.is_fixed and slot.may_be_missing == may_be_missing:
        return slot
    if not isinstance(value, Undecided):
        known = value
        value = Undecided(slot.place, _cells(known))
        value.choices = (known,) if isinstance(known, Known) and is_choice else ()
    return Slot(value, slot.place, slot.key_place, is_fixed=True, may_be_missing=may_be_missing)


def _cells(value: Value) -> tuple[Value, ...]:
    """The cells that a write through a value may change, and the functions that a call of it may be one of."""
    if isinstance(value, (Changeable, ModuleFunction, Bound, Method, Class)):
        return (value,)
    if isinstance(value, Object):
        return (value.attributes,)
    if isinstance(value, View):
        return (value.cell,)
    return value.candidates if isinstance(value, Undecided) else ()


def same(one: Value, other: Value) -> bool:
    """Whether two values are the same object, or equal and unable to change."""
    if one is other:
        return True
    if isinstance(one, Known) and isinstance(other, Known):
        return type(one.value) is type(other.value) and repr(one.value) == repr(other.value)
    if isinstance(one, Object) and isinstance(other, Object):
        return one.attributes is other.attributes
    return isinstance(one, tuple) and type(one) is type(other) and isinstance(one, LibraryName) and one == other


def join_values(one: Value, other: Value, state: Heap) -> Value:
    """What is known of a value that is one of two."""
    if same(one, other):
        return one
    cells = tuple(dict.fromkeys((*_cells(one), *_cells(other))))
    if len(cells) > _MOST_CANDIDATES:
        for cell in cells:
            if isinstance(cell, Changeable):
                lose(cell)
        cells = ()
    is_fraction = isinstance(one, Undecided) and one.is_fraction and isinstance(other, Undecided) and other.is_fraction
    joined = Undecided(place_of(one), cells, is_fraction=is_fraction)
    joined.choices = _choices(one, other)
    return joined


def _choices(one: Value, other: Value) -> tuple[Known, ...]:
    """The texts and numbers that a value may be; none if one of them does not show, or if there are many."""
    found: list[Known] = []
    for value in (one, other):
        if isinstance(value, Known):
            found.append(value)
        elif isinstance(value, Undecided) and value.choices:
            found += value.choices
        else:
            return ()
    return tuple(found) if len(found) <= _MOST_CANDIDATES else ()


def place_of(value: Value) -> Place:
    """The place of a value; None for what has none."""
    return getattr(value, "place", None)


def lose(cell: Changeable) -> None:
    """Forget a cell and what is in it for good: there are too many names for it."""
    pending: list[Any] = [cell]
    while pending:
        current = pending.pop()
        if isinstance(current, Object):
            current = current.attributes
        if isinstance(current, Undecided):
            pending += current.candidates
        if not isinstance(current, Changeable) or current.is_lost:
            continue
        current.is_lost = True
        slots = current.content.entries.values() if isinstance(current, Dict) else current.content or ()
        pending += [slot.value for slot in slots]


def join_slots(one: Slot | None, other: Slot | None, state: Heap) -> Slot:
    """What is known of a place that has one of two values, None for none."""
    if one is None or other is None:
        only = one or other
        assert only is not None  # noqa: S101 - one of two that differ
        return _unknown_slot(only, may_be_missing=True, is_choice=True)
    if one is other:
        return one
    if one.may_be_missing and one.is_fixed and isinstance(one.value, Undecided) and not one.value.choices:
        more = _cells(other.value)
        if all(cell in one.value.candidates for cell in more):
            return one
    value = join_values(one.value, other.value, state)
    is_same_place = one.place == other.place and one.key_place == other.key_place
    return Slot(
        value,
        one.place,
        one.key_place,
        is_fixed=one.is_fixed or other.is_fixed or not is_same_place,
        may_be_missing=one.may_be_missing or other.may_be_missing,
    )


def join_contents(one: Any, other: Any, state: Heap) -> Any:
    """What is known of a cell that has one of two contents."""
    if one is other:
        return one
    if isinstance(one, Table):
        entries = dict(one.entries)
        for key, right in other.entries.items():
            left = entries.get(key)
            if left is right:
                continue
            if left is None and one.is_open:
                entries[key] = _unknown_slot(right, may_be_missing=True)
            else:
                entries[key] = join_slots(left, right, state)
        if len(entries) > len(other.entries):
            for key, left in one.entries.items():
                if key not in other.entries:
                    entries[key] = _unknown_slot(left, may_be_missing=True, is_choice=not other.is_open)
        return Table(entries, one.is_open or other.is_open)
    if one is None or other is None or len(one) != len(other):
        return None
    return tuple(join_slots(left, right, state) for left, right in zip(one, other, strict=True))


def _same_content(one: Any, other: Any, born: list[range]) -> bool:
    """Whether a content says the same as before; a cell that a branch has made itself is nothing new."""
    if isinstance(one, Table):
        return (
            one.is_open == other.is_open
            and len(one.entries) == len(other.entries)
            and all(
                (known := other.entries.get(key)) is slot or (known is not None and _same_slot(slot, known, born))
                for key, slot in one.entries.items()
            )
        )
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(_same_slot(left, right, born) for left, right in zip(one, other, strict=True))


def _same_slot(one: Slot, other: Slot, born: list[range]) -> bool:
    if one.may_be_missing != other.may_be_missing:
        return False
    if isinstance(one.value, Undecided) and isinstance(other.value, Undecided):
        before, after = (
            {_site(cell) for cell in value.candidates if not _is_of(cell, born)} for value in (one.value, other.value)
        )
        return before == after and len(one.value.choices) == len(other.value.choices)
    return same(one.value, other.value)


def _is_of(value: Value, born: list[range]) -> bool:
    return isinstance(value, Changeable) and any(value.serial in numbers for numbers in born)


def _site(value: Value) -> Any:
    """The text that has made a cell, however often."""
    return place_of(value) if isinstance(value, Changeable) else id(value)

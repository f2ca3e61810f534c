"""The methods of dicts, lists, texts and paths, with what they do to the value that they belong to."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation.operations import computed, formatted, is_wide, lifted, lowered
from ds_lint.source.evaluation.values import (
    Arguments,
    Dict,
    Known,
    List,
    ModuleError,
    NotKnown,
    Slot,
    Table,
    Undecided,
    View,
)

if TYPE_CHECKING:
    from collections.abc import Hashable

    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value

_MOST_ITEMS = 5_000
_OF_TEXTS = frozenset({
    "capitalize", "casefold", "center", "count", "endswith", "expandtabs", "find", "format", "index", "isalnum",
    "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isspace", "istitle",
    "isupper", "join", "ljust", "lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind",
    "rindex", "rjust", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith", "strip", "swapcase",
    "title", "upper", "zfill",
})  # fmt: skip
_WIDE = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})
_OF_NUMBERS = frozenset({"is_integer", "bit_length", "as_integer_ratio", "conjugate", "hex"})
_OF_PATHS = frozenset({
    "as_posix", "joinpath", "with_name", "with_stem", "with_suffix", "is_absolute", "relative_to", "is_relative_to",
})  # fmt: skip
PATH_ATTRIBUTES = frozenset({"name", "parent", "parents", "parts", "stem", "suffix", "suffixes"})
_OF_RANGES = frozenset({"count", "index"})


def call(run: Evaluator, receiver: Value, name: str, arguments: Arguments, place: Place) -> Value:
    """What a method of a built-in type returns; raises NotKnown if that does not show."""
    if isinstance(receiver, Dict):
        return _of_dict(run, receiver, name, arguments, place)
    if isinstance(receiver, List):
        return _of_list(run, receiver, name, arguments, place)
    if isinstance(receiver, Known):
        return _of_scalar(run, receiver.value, name, arguments, place)
    raise NotKnown


def _of_scalar(run: Evaluator, value: Any, name: str, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open:
        raise NotKnown
    is_number = isinstance(value, (int, float))
    allowed = (
        (isinstance(value, str) and name in _OF_TEXTS)
        or (is_number and name in _OF_NUMBERS)
        or (isinstance(value, PurePath) and name in _OF_PATHS)
        or (isinstance(value, range) and name in _OF_RANGES)
    )
    if not allowed:
        raise ModuleError(AttributeError) if not hasattr(value, name) else NotKnown
    if name == "join" and len(arguments.positional) == 1:
        items = run.items(arguments.positional[0].value)
        if items is None:
            raise NotKnown
        positional: list[Any] = [[lowered(slot.value) for slot in items]]
    else:
        positional = [lowered(slot.value) for slot in arguments.positional]
    named = {key: lowered(slot.value) for key, slot in arguments.keywords.items()}
    if name in _WIDE and is_wide(positional):
        raise NotKnown
    if name == "replace" and len(positional) >= 2 and len(value) * (1 + len(str(positional[1]))) > 200_000:
        raise NotKnown
    if name == "join" and sum(len(str(one)) + len(value) for one in positional[0]) > 200_000:
        raise NotKnown
    if name == "format":
        computed(lambda: formatted(value.replace("%", "%%"), ()))  # refuses huge widths
    return lifted(computed(lambda: getattr(value, name)(*positional, **named)), place, run.state)


# Dicts.


def entry(cell: Dict, key: Hashable) -> Slot | None:
    """What a dict has under a key; None for a key that it does not have, raises NotKnown if that does not show."""
    if cell.is_lost:
        raise NotKnown
    slot = cell.content.entries.get(key)
    if slot is None and cell.content.is_open:
        raise NotKnown
    if slot is not None and slot.may_be_missing:
        raise NotKnown
    return slot


def inner_cells(container: Value) -> tuple[Value, ...]:
    """The cells that an item of a dict or list may be."""
    found: dict[int, Value] = {}
    slots: list[Slot] = []
    if isinstance(container, Dict):
        slots = [*container.content.entries.values()]
    elif isinstance(container, List):
        slots = [*(container.content or ())]
    elif isinstance(container, Undecided):
        for one in container.candidates:
            found |= {id(cell): cell for cell in inner_cells(one)}
    for slot in slots:
        value = slot.value
        cells = value.candidates if isinstance(value, Undecided) else (value,)
        found |= {id(cell): cell for cell in cells if isinstance(cell, (Dict, List))}
    return tuple(found.values())[:20]


def key_of(value: Value) -> Any:
    """A key as Python has it; raises NotKnown if it does not show."""
    key = lowered(value)
    computed(lambda: hash(key))
    return key


def _argument(arguments: Arguments, index: int, name: str = "") -> Slot | None:
    if index < len(arguments.positional):
        return arguments.positional[index]
    return arguments.keywords.get(name)


def update(run: Evaluator, cell: Dict, arguments: Arguments) -> None:
    """What ``update`` and ``dict`` do with their arguments."""
    for slot in arguments.positional:
        merge(run, cell, slot.value)
    if arguments.is_open:
        run.state.blur(cell)
    for name, slot in arguments.keywords.items():
        put(run, cell, name, slot)


def put(run: Evaluator, cell: Dict, key: Hashable, slot: Slot) -> None:
    """Set a key, which one of another dict may do or not."""
    if slot.may_be_missing:
        run.state.weaken(cell, key, slot)
    else:
        run.state.put(cell, key, slot)


def merge(run: Evaluator, cell: Dict, other: Value) -> None:
    """Put the keys of another dict, or pairs, into one."""
    if isinstance(other, Dict):
        if other.is_lost or other.content.is_open:
            run.state.blur(cell)
        if other.is_lost:
            return
        for key, slot in other.content.entries.items():
            put(run, cell, key, slot)
        return
    pairs = None if isinstance(other, Undecided) else run.items(other)
    if pairs is None or len(pairs) > _MOST_ITEMS:
        run.state.blur(cell)
        return
    for pair in pairs:
        both = run.items(pair.value)
        if both is None or len(both) != 2 or pair.may_be_missing:
            run.state.blur(cell)
            continue
        try:
            key = key_of(both[0].value)
        except NotKnown:
            run.state.blur(cell)
            continue
        place = both[0].value.place if isinstance(both[0].value, Known) else both[0].place
        put(run, cell, key, both[1].with_key(place))


def unite(run: Evaluator, one: Dict, other: Dict, place: Place) -> Dict:
    """The dict that ``|`` makes of two."""
    made = run.state.new_dict(place)
    merge(run, made, one)
    merge(run, made, other)
    return made


def set_key(run: Evaluator, cell: Dict, key: Value, slot: Slot) -> None:
    """What ``cell[key] = ...`` does."""
    try:
        name = key_of(key)
    except NotKnown:
        set_some_key(run, cell, key, slot)
        return
    place = slot.key_place if slot.key_place is not None else getattr(key, "place", None)
    run.state.put(cell, name, slot.with_key(place))


def set_some_key(run: Evaluator, cell: Dict, key: Value, slot: Slot) -> None:
    """Put a value under a key that does not show, or that is one of a few."""
    if isinstance(key, Undecided) and key.choices:
        for choice in key.choices:
            run.state.weaken(cell, choice.value, slot.with_key(choice.place))
    else:
        run.state.blur(cell)


def delete_key(run: Evaluator, cell: Dict, key: Value) -> None:
    """What ``del cell[key]`` does."""
    try:
        name = key_of(key)
        if entry(cell, name) is None:
            raise ModuleError(KeyError)
        run.state.remove(cell, name)
    except NotKnown:
        try:
            name = key_of(key)
        except NotKnown:
            run.state.blur(cell)
        else:
            run.state.remove(cell, name)  # or it raises


def copied(run: Evaluator, cell: Dict, place: Place) -> Dict:
    """A copy of a dict, with the same values in it."""
    made = run.state.new_dict(place)
    made.factory = cell.factory
    merge(run, made, cell)
    return made


def _of_dict(run: Evaluator, cell: Dict, name: str, arguments: Arguments, place: Place) -> Value:  # noqa: PLR0912, PLR0915 - one for each method
    if name in ("items", "keys", "values"):
        return View(cell, name)
    if name == "update":
        update(run, cell, arguments)
        return Known(None, place)
    if name == "copy":
        return copied(run, cell, cell.place)
    if name == "clear":
        run.state.write(cell, Table({}))
        return Known(None, place)
    if arguments.is_open:
        run.state.blur(cell)
        raise NotKnown
    key = _argument(arguments, 0)
    if name in ("get", "setdefault", "pop") and key is not None:
        default = _argument(arguments, 1)
        try:
            known = key_of(key.value)
        except NotKnown:
            if name != "get":
                run.state.blur(cell)
            return Undecided(place, inner_cells(cell))
        try:
            slot = entry(cell, known)
        except NotKnown:
            old = cell.content.entries.get(known)
            cells = [old.value] if old is not None else []
            if name == "setdefault":
                run.state.weaken(cell, known, default or Slot(Known(None, place), place))
            elif name == "pop":
                run.state.remove(cell, known)
            cells += [default.value] if default is not None else []
            return Undecided(place, tuple(one for one in cells if isinstance(one, (Dict, List))))
        if slot is not None:
            if name == "pop":
                run.state.remove(cell, known)
            return slot.value
        if name == "pop" and default is None:
            raise ModuleError(KeyError)
        value = default.value if default is not None else Known(None, place)
        if name == "setdefault":
            key_place = key.value.place if isinstance(key.value, Known) else key.place
            written = default or Slot(value, place, is_fixed=True)
            run.state.put(cell, known, written.with_key(key_place))
        return value
    if name == "popitem":
        if cell.is_lost or cell.content.is_open or any(one.may_be_missing for one in cell.content.entries.values()):
            run.state.blur(cell)
            raise NotKnown
        if not cell.content.entries:
            raise ModuleError(KeyError)
        last = [*cell.content.entries][-1]
        slot = cell.content.entries[last]
        run.state.remove(cell, last)
        return run.state.new_list(place, [Slot(Known(last, slot.key_place), place), slot], "tuple")
    if name == "move_to_end" and key is not None:
        known = key_of(key.value)
        slot = entry(cell, known)
        if slot is None or arguments.keywords or len(arguments.positional) > 1:
            raise NotKnown
        run.state.remove(cell, known)
        run.state.put(cell, known, slot)
        return Known(None, place)
    if name == "__contains__" and key is not None:
        return Known(entry(cell, key_of(key.value)) is not None, place)
    if name == "__getitem__" and key is not None:
        return run.item(cell, key.value, place)
    if name == "__setitem__" and len(arguments.positional) == 2:
        set_key(run, cell, arguments.positional[0].value, arguments.positional[1])
        return Known(None, place)
    if name not in dir(dict):
        raise ModuleError(AttributeError)
    run.state.blur(cell)
    raise NotKnown


# Lists, tuples, sets and iterators.


def items_of(cell: List) -> tuple[Slot, ...]:
    """The items; raises NotKnown if they do not show."""
    if cell.is_lost or cell.content is None:
        raise NotKnown
    return cell.content


def extend(run: Evaluator, cell: List, other: Value) -> None:
    """Put the items of another value behind those of a list."""
    more = run.items(other)
    if more is None or cell.content is None or len(cell.content) + len(more) > _MOST_ITEMS:
        run.state.blur_list(cell)
    else:
        run.state.write(cell, (*cell.content, *more))


def _of_list(run: Evaluator, cell: List, name: str, arguments: Arguments, place: Place) -> Value:  # noqa: PLR0912 - one for each method
    if cell.kind == "set":
        return _of_set(run, cell, name, arguments, place)
    if cell.kind not in ("list", "tuple"):
        raise NotKnown
    nothing = Known(None, place)
    first = _argument(arguments, 0)
    if name == "append" and first is not None:
        if cell.content is None or len(cell.content) >= _MOST_ITEMS:
            run.state.blur_list(cell)
        else:
            run.state.write(cell, (*cell.content, first))
        return nothing
    if name == "extend" and first is not None:
        extend(run, cell, first.value)
        return nothing
    if name == "clear":
        run.state.write(cell, ())
        return nothing
    if name == "copy":
        return run.state.new_list(cell.place, cell.content)
    if name in ("index", "count") and first is not None:
        items, wanted = [lowered(slot.value) for slot in items_of(cell)], lowered(first.value)
        return lifted(computed(lambda: getattr(items, name)(wanted)), place, run.state)
    if name not in dir(list if cell.kind == "list" else tuple):
        raise ModuleError(AttributeError)
    if cell.kind == "tuple":
        raise NotKnown
    try:
        slots = [*items_of(cell)]
        if name == "insert" and len(arguments.positional) == 2:
            slots.insert(lowered(arguments.positional[0].value), arguments.positional[1])
        elif name == "reverse":
            slots.reverse()
        elif name == "pop":
            index = lowered(first.value) if first is not None else -1
            taken = computed(lambda: slots.pop(index))
            run.state.write(cell, tuple(slots))
            return taken.value if not taken.may_be_missing else Undecided(place)
        elif name == "remove" and first is not None:
            wanted = lowered(first.value)
            index = computed(lambda: [lowered(slot.value) for slot in slots].index(wanted))
            del slots[index]
        elif name == "sort":
            slots = in_order(run, slots, arguments.keywords)
        else:
            raise NotKnown  # noqa: TRY301 - one way out
    except NotKnown:
        run.state.blur_list(cell)
        raise
    run.state.write(cell, tuple(slots))
    return nothing


def in_order(run: Evaluator, slots: list[Slot], options: dict[str, Slot]) -> list[Slot]:
    """Items as ``sorted`` has them."""
    by = options.get("key")
    is_reverse = run.truth(options["reverse"].value) if "reverse" in options else False
    if is_reverse is None:
        raise NotKnown
    keys = [
        lowered(
            slot.value if by is None or is_none(by.value) else run.call(by.value, Arguments([slot], {}), slot.place)
        )
        for slot in slots
    ]
    order = computed(lambda: sorted(range(len(slots)), key=keys.__getitem__, reverse=is_reverse))
    return [slots[index] for index in order]


def is_none(value: Value) -> bool:
    """Whether a value is None."""
    return isinstance(value, Known) and value.value is None


def _of_set(run: Evaluator, cell: List, name: str, arguments: Arguments, place: Place) -> Value:
    if name in ("add", "discard", "update", "remove", "clear", "pop", "difference_update", "intersection_update"):
        try:
            known: set[Any] = lowered(cell)
            others = [lowered(slot.value) for slot in arguments.positional]
            computed(lambda: getattr(known, name)(*others))
            if name == "pop":
                raise NotKnown  # noqa: TRY301 - one way out
        except NotKnown:
            run.state.blur_list(cell)
            raise
        made = lifted(known, cell.place, run.state)
        run.state.write(cell, made.content if isinstance(made, List) else None)
        return Known(None, place)
    known = lowered(cell)
    others = [lowered(slot.value) for slot in arguments.positional]
    if name not in ("union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "copy"):
        raise NotKnown
    return lifted(computed(lambda: getattr(known, name)(*others)), place, run.state)


def cells_of(values: list[Value]) -> list[Value]:
    """Those of some values that can change."""
    return [value for value in values if isinstance(value, (Dict, List))]

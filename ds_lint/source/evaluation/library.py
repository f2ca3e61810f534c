"""What functions of Python and of its standard library do that depend on nothing but their arguments."""

from __future__ import annotations

import ast
import functools
import json
import math
import operator
import posixpath
import textwrap
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation import methods
from ds_lint.source.evaluation.classes import as_dict, fields_of, replaced
from ds_lint.source.evaluation.operations import binary, computed, lifted, lowered, path
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
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.evaluator import Evaluator
    from ds_lint.source.evaluation.values import Place, Value

    PureFunction = Callable[[Evaluator, Arguments, Place], Value]

_MOST_ITEMS = 5_000
_LARGEST_ROUNDING = 300


def _plain(function: Callable[..., Any]) -> PureFunction:
    """A function of values that are known to their ground."""

    def call(run: Evaluator, arguments: Arguments, place: Place) -> Value:
        if arguments.is_open:
            raise NotKnown
        positional = [_ground(run, slot.value) for slot in arguments.positional]
        named = {name: _ground(run, slot.value) for name, slot in arguments.keywords.items()}
        return lifted(computed(lambda: function(*positional, **named)), place, run.state)

    return call


def _ground(run: Evaluator, value: Value) -> Any:
    if isinstance(value, List) and value.kind == "iterator":
        return [lowered(slot.value) for slot in _items(run, value)]
    if isinstance(value, Known) and isinstance(value.value, range) and value.value[_MOST_ITEMS:]:
        raise NotKnown
    return lowered(value)


def _items(run: Evaluator, value: Value) -> list[Slot]:
    items = run.items(value)
    if items is None or len(items) > _MOST_ITEMS or any(slot.may_be_missing for slot in items):
        raise NotKnown
    return items


def _one(arguments: Arguments, most: int = 1) -> Slot:
    """The only argument, or the first of a few."""
    if arguments.is_open or arguments.keywords or not 1 <= len(arguments.positional) <= most:
        raise NotKnown
    return arguments.positional[0]


def _text(value: Any = "") -> str:
    if isinstance(value, (set, frozenset)):
        raise NotKnown
    return str(value)


def _as_text(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if any(isinstance(slot.value, Object) for slot in arguments.positional):
        raise NotKnown  # of an enumeration it depends on the release of Python
    return _plain(_text)(run, arguments, place)


def _dict(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    made = run.state.new_dict(place)
    methods.update(run, made, arguments)
    return made


def _sequence(kind: str) -> PureFunction:
    def call(run: Evaluator, arguments: Arguments, place: Place) -> Value:
        if not arguments.positional:
            return run.state.new_list(place, [], kind)
        items = _items(run, _one(arguments).value)
        if kind == "set":
            return lifted({lowered(slot.value) for slot in items}, place, run.state)
        return run.state.new_list(place, items, kind)

    return call


def _sorted(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = arguments.positional[0].value if arguments.positional else None
    if value is None or arguments.is_open:
        raise NotKnown
    slots = [*methods.items_of(value)] if isinstance(value, List) and value.kind == "set" else _items(run, value)
    return run.state.new_list(place, methods.in_order(run, slots, arguments.keywords))


def _reversed(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    return run.state.new_list(place, reversed(_items(run, _one(arguments).value)), "iterator")


def _enumerate(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    start = arguments.positional[1] if len(arguments.positional) > 1 else arguments.keywords.get("start")
    first = lowered(start.value) if start is not None else 0
    if not isinstance(first, int) or not arguments.positional or arguments.is_open:
        raise NotKnown
    pairs = [
        _pair(run, Slot(Known(first + number, place), place, is_fixed=True), slot, place)
        for number, slot in enumerate(_items(run, arguments.positional[0].value))
    ]
    return run.state.new_list(place, pairs, "iterator")


def _pair(run: Evaluator, one: Slot, other: Slot, place: Place) -> Slot:
    return Slot(run.state.new_list(place, [one, other], "tuple"), place, is_fixed=True)


def _zip(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or not set(arguments.keywords) <= {"strict"}:
        raise NotKnown
    lines = [_items(run, slot.value) for slot in arguments.positional]
    is_strict = run.truth(arguments.keywords["strict"].value) if arguments.keywords else False
    if len({len(line) for line in lines}) > 1 and is_strict is not False:
        raise ModuleError(ValueError) if is_strict else NotKnown
    rows = [Slot(run.state.new_list(place, row, "tuple"), place, is_fixed=True) for row in zip(*lines, strict=False)]
    return run.state.new_list(place, rows, "iterator")


def _map(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or arguments.keywords or len(arguments.positional) < 2:
        raise NotKnown
    function, *lines = arguments.positional
    rows = zip(*(_items(run, slot.value) for slot in lines), strict=False)
    made = [Slot(run.call(function.value, Arguments([*row], {}), place), place, is_fixed=True) for row in rows]
    return run.state.new_list(place, made, "iterator")


def _filter(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or len(arguments.positional) != 2:
        raise NotKnown
    function, line = arguments.positional
    kept = []
    for slot in _items(run, line.value):
        is_kept = run.truth(
            slot.value if methods.is_none(function.value) else run.call(function.value, Arguments([slot], {}), place)
        )
        if is_kept is None:
            raise NotKnown
        if is_kept:
            kept.append(slot)
    return run.state.new_list(place, kept, "iterator")


def _next(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    line = arguments.positional[0].value if arguments.positional else None
    if not isinstance(line, List) or line.kind != "iterator":
        raise NotKnown
    items = methods.items_of(line)
    if items:
        run.state.write(line, items[1:])
        if items[0].may_be_missing:
            raise NotKnown
        return items[0].value
    if len(arguments.positional) > 1:
        return arguments.positional[1].value
    raise ModuleError(StopIteration)


def _iter(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments).value
    if isinstance(value, List) and value.kind == "iterator":
        return value
    return run.state.new_list(place, _items(run, value), "iterator")


def _len(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments).value
    if isinstance(value, List) and value.kind != "iterator" and value.content is not None and not value.is_lost:
        return Known(len(value.content), place)
    cell = value.cell if isinstance(value, View) else value
    if isinstance(cell, Dict) and not (cell.is_lost or cell.content.is_open):
        if any(slot.may_be_missing for slot in cell.content.entries.values()):
            raise NotKnown
        return Known(len(cell.content.entries), place)
    if isinstance(value, Object):
        return run.call(run.attribute(value, "__len__", place), Arguments([], {}), place)
    return _plain(len)(run, arguments, place)


def _extreme(function: Callable[..., Any]) -> PureFunction:
    def call(run: Evaluator, arguments: Arguments, place: Place) -> Value:
        by = arguments.keywords.get("key")
        if by is None:
            return _plain(function)(run, arguments, place)
        if arguments.is_open or len(arguments.keywords) > 1:
            raise NotKnown
        slots = arguments.positional if len(arguments.positional) > 1 else _items(run, arguments.positional[0].value)
        keys = [lowered(run.call(by.value, Arguments([slot], {}), place)) for slot in slots]
        index = computed(lambda: function(range(len(slots)), key=keys.__getitem__))
        chosen: Value = slots[index].value
        return chosen

    return call


def _round(number: Any, digits: Any = None) -> Any:
    if isinstance(digits, int) and abs(digits) > _LARGEST_ROUNDING:
        raise NotKnown
    return round(number, digits)


def _power(base: Any, exponent: Any) -> Any:
    return binary(ast.Pow, base, exponent)


def _any_all(wanted: bool) -> PureFunction:
    def call(run: Evaluator, arguments: Arguments, place: Place) -> Value:
        truths = [run.truth(slot.value) for slot in _items(run, _one(arguments).value)]
        if wanted in truths:
            return Known(wanted, place)
        if None in truths:
            raise NotKnown
        return Known(not wanted, place)

    return call


_TYPES: dict[str, tuple[type, ...]] = {
    "builtins.bool": (bool,), "builtins.int": (int,), "builtins.float": (float,), "builtins.str": (str,),
    "builtins.dict": (dict,), "builtins.list": (list,), "builtins.tuple": (tuple,), "builtins.set": (set,),
    "builtins.bytes": (bytes,), "builtins.range": (range,), "collections.abc.Mapping": (dict,),
    "typing.Mapping": (dict,), "collections.abc.MutableMapping": (dict,), "typing.Dict": (dict,),
    "typing.List": (list,), "numbers.Number": (bool, int, float), "pathlib.Path": (PurePath,),
    "numbers.Integral": (bool, int), "numbers.Real": (bool, int, float), "collections.abc.Sequence": (list, tuple, str),
    "os.PathLike": (PurePath,), "types.NoneType": (type(None),), "builtins.NoneType": (type(None),),
}  # fmt: skip


def _is_instance(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if len(arguments.positional) != 2 or arguments.is_open:
        raise NotKnown
    value, kinds = arguments.positional[0].value, arguments.positional[1].value
    every = [slot.value for slot in _items(run, kinds)] if isinstance(kinds, List) else [kinds]
    answers = [_is_of(value, kind) for kind in every]
    if True in answers:
        return Known(True, place)
    if None in answers:
        raise NotKnown
    return Known(False, place)


def _is_of(value: Value, kind: Value) -> bool | None:
    if isinstance(value, Object):
        if isinstance(kind, Class):
            return kind in value.cls.order if value.cls.is_plain or kind in value.cls.order else None
        return None
    if isinstance(kind, Class):
        return False if isinstance(value, (Known, Dict, List)) and kind.is_plain else None
    if not isinstance(kind, LibraryName) or kind.name not in _TYPES:
        return None
    types = _TYPES[kind.name]
    if isinstance(value, Dict):
        return dict in types
    if isinstance(value, List) and value.kind in ("list", "tuple", "set"):
        return {"list": list, "tuple": tuple, "set": set}[value.kind] in types
    return isinstance(value.value, types) if isinstance(value, Known) else None


def _is_subclass(_run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if len(arguments.positional) == 2:
        one, other = (slot.value for slot in arguments.positional)
        if isinstance(one, Class) and isinstance(other, Class) and (other in one.order or one.is_plain):
            return Known(other in one.order, place)
    raise NotKnown


def _type(_run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments).value
    if isinstance(value, Object):
        return value.cls
    if isinstance(value, Dict) and value.factory is None:
        return LibraryName("builtins.dict")
    if isinstance(value, List) and value.kind in ("list", "tuple", "set"):
        return LibraryName(f"builtins.{value.kind}")
    if isinstance(value, Known) and isinstance(value.value, (bool, int, float, str, type(None))):
        return LibraryName(f"builtins.{type(value.value).__name__}")
    raise NotKnown


def _callable(_run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments).value
    if isinstance(value, (ModuleFunction, Class, Bound)) or (
        isinstance(value, LibraryName) and value.name in FUNCTIONS
    ):
        return Known(True, place)
    if isinstance(value, (Known, Dict, List)):
        return Known(False, place)
    raise NotKnown


def _getattr(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or not 2 <= len(arguments.positional) <= 3:
        raise NotKnown
    name = lowered(arguments.positional[1].value)
    if not isinstance(name, str):
        raise ModuleError(TypeError)
    value = arguments.positional[0].value
    if len(arguments.positional) == 2:
        return run.attribute(value, name, place)
    try:
        found = run.attribute(value, name, place)
    except ModuleError as raised:
        if raised.kind is AttributeError:
            return arguments.positional[2].value
        raise
    if isinstance(found, Undecided) and isinstance(value, Undecided):
        return Undecided(place)
    return found


def _hasattr(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or len(arguments.positional) != 2:
        raise NotKnown
    value, name = arguments.positional[0].value, lowered(arguments.positional[1].value)
    if not isinstance(value, (Object, Class, Known, Dict, List)) or not isinstance(name, str):
        raise NotKnown
    try:
        found = run.attribute(value, name, place)
    except ModuleError as raised:
        if raised.kind is AttributeError:
            return Known(False, place)
        raise
    if isinstance(found, Undecided):
        raise NotKnown
    return Known(True, place)


def _setattr(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or len(arguments.positional) != 3:
        raise NotKnown
    one, name, slot = arguments.positional
    try:
        known = lowered(name.value)
    except NotKnown:
        if isinstance(one.value, (Object, Class)):
            run.state.blur(one.value.attributes)
        raise
    run.set_attribute(one.value, known, slot)
    return Known(None, place)


def _vars(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    return run.attribute(_one(arguments).value, "__dict__", place)


# Copies.


def _copy(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments).value
    if isinstance(value, Dict):
        if value.is_lost:
            raise NotKnown
        return methods.copied(run, value, value.place)
    if isinstance(value, List) and value.kind == "list":
        return run.state.new_list(value.place, value.content)
    if isinstance(value, Object):
        if value.cls.kind in ("enum", "number"):
            return value
        return Object(value.cls, methods.copied(run, value.attributes, place), value.place)
    if isinstance(value, (Known, ModuleFunction, Class)) or (isinstance(value, List) and value.kind == "tuple"):
        return value
    raise NotKnown


def _deep_copy(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments, 2).value
    if isinstance(value, Undecided):
        return Undecided(place)
    return _Copying(run).copy(value, 0)


class _Copying:
    def __init__(self, run: Evaluator) -> None:
        self._run = run
        self._made: dict[int, Value] = {}

    def copy(self, value: Value, depth: int) -> Value:
        if depth > 60:
            raise NotKnown
        if id(value) in self._made:
            return self._made[id(value)]
        state = self._run.state
        if isinstance(value, Dict):
            if value.is_lost:
                raise NotKnown
            made = state.new_dict(value.place, is_open=value.content.is_open)
            made.factory = value.factory
            self._made[id(value)] = made
            entries = {key: self._slot(slot, depth) for key, slot in value.content.entries.items()}
            made.content = made.content._replace(entries=entries)
            return made
        if isinstance(value, List) and value.kind != "iterator":
            copied = state.new_list(value.place, None, value.kind)
            self._made[id(value)] = copied
            copied.content = None if value.content is None else tuple(self._slot(one, depth) for one in value.content)
            return copied
        if isinstance(value, Object) and value.cls.kind not in ("enum", "number"):
            attributes = state.new_dict(value.place)
            made_object = Object(value.cls, attributes, value.place)
            self._made[id(value)] = made_object
            entries = {key: self._slot(slot, depth) for key, slot in value.attributes.content.entries.items()}
            attributes.content = attributes.content._replace(entries=entries, is_open=value.attributes.content.is_open)
            return made_object
        if isinstance(value, Undecided):
            return Undecided(value.place, is_fraction=value.is_fraction)
        if isinstance(value, (View, List)):
            raise NotKnown
        return value

    def _slot(self, slot: Slot, depth: int) -> Slot:
        value = self.copy(slot.value, depth + 1)
        return Slot(value, slot.place, slot.key_place, is_fixed=slot.is_fixed, may_be_missing=slot.may_be_missing)


# JSON and other texts.

_OF_DUMPS = frozenset({"indent", "sort_keys", "ensure_ascii", "separators", "allow_nan"})


def _dumps(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    named = {name: slot for name, slot in arguments.keywords.items() if not methods.is_none(slot.value)}
    if len(arguments.positional) != 1 or arguments.is_open or not named.keys() <= _OF_DUMPS:
        raise NotKnown
    indent = lowered(named["indent"].value) if "indent" in named else None
    if isinstance(indent, int) and indent > 16:
        raise NotKnown
    options = {name: lowered(slot.value) for name, slot in named.items()}
    value = lowered(arguments.positional[0].value)
    return Known(computed(lambda: json.dumps(value, **options)), place)


def _loads(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    text = lowered(_one(arguments).value)
    return lifted(computed(lambda: json.loads(text)), place, run.state)


def _literal(text: Any) -> Any:
    if not isinstance(text, str):
        raise NotKnown
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        raise ModuleError(SyntaxError) from None
    except MemoryError:
        raise NotKnown from None


# Objects and functions.


def _as_dict(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    return as_dict(run, _one(arguments).value, place)


def _as_tuple(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    made = as_dict(run, _one(arguments).value, place)
    assert isinstance(made, Dict)  # noqa: S101 - otherwise NotKnown is raised
    return run.state.new_list(place, made.content.entries.values(), "tuple")


def _replace(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if len(arguments.positional) != 1:
        raise NotKnown
    return replaced(run, arguments.positional[0].value, arguments, place)


def _fields(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    value = _one(arguments).value
    cls = value.cls if isinstance(value, Object) else value
    if not isinstance(cls, Class) or cls.kind != "dataclass" or not cls.is_plain:
        raise NotKnown
    slots = []
    for field in fields_of(cls):
        attributes = run.state.new_dict(
            place, {"name": Slot(Known(field.name, place), place, is_fixed=True)}, is_open=True
        )
        slots.append(Slot(Object(_opaque(run), attributes, place), place, is_fixed=True))
    return run.state.new_list(place, slots, "tuple")


def _opaque(run: Evaluator) -> Class:
    """A class of which nothing is known but the attributes of its objects."""
    return Class("", None, [], run.state.new_dict(None))


def _namespace(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    attributes = run.state.new_dict(place)
    methods.update(run, attributes, arguments)
    cls = _opaque(run)
    cls.kind = "namespace"
    return Object(cls, attributes, place)


def _default_dict(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    made = run.state.new_dict(place)
    if arguments.positional and not methods.is_none(arguments.positional[0].value):
        made.factory = arguments.positional[0].value
    methods.update(run, made, Arguments(arguments.positional[1:], arguments.keywords, arguments.is_open))
    return made


def _named_tuple(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if len(arguments.positional) != 2 or arguments.is_open or not arguments.keywords.keys() <= {"defaults"}:
        raise NotKnown
    name, names = (lowered(slot.value) for slot in arguments.positional)
    cls = Class(name, None, [], run.state.new_dict(place))
    cls.kind = "namedtuple"
    texts = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    if not all(isinstance(one, str) for one in texts):
        raise NotKnown
    defaults = _items(run, arguments.keywords["defaults"].value) if arguments.keywords else []
    padded: list[Slot | None] = [*([None] * (len(texts) - len(defaults))), *defaults]
    cls.fields = [Field(one, default) for one, default in zip(texts, padded, strict=True)]
    return cls


def _named_as_dict(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    one = _one(arguments).value
    if not isinstance(one, Object):
        raise NotKnown
    return methods.copied(run, one.attributes, place)


def _partial(_run: Evaluator, arguments: Arguments, _place: Place) -> Value:
    if arguments.is_open or not arguments.positional:
        raise NotKnown
    function, *rest = arguments.positional
    return Bound(function.value, tuple(rest), tuple(arguments.keywords.items()))


def _reduce(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    if arguments.is_open or not 2 <= len(arguments.positional) <= 3:
        raise NotKnown
    function, line, *first = arguments.positional
    slots = [*first, *_items(run, line.value)]
    if not slots:
        raise ModuleError(TypeError)
    current = slots[0]
    for slot in slots[1:]:
        current = Slot(run.call(function.value, Arguments([current, slot], {}), place), place, is_fixed=True)
    return current.value


def _chain(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    slots = [one for slot in arguments.positional for one in _items(run, slot.value)]
    return run.state.new_list(place, slots, "iterator")


def _chain_all(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    return _chain(run, Arguments(_items(run, _one(arguments).value), {}), place)


def _chain_map(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    made = run.state.new_dict(place)
    for slot in reversed(arguments.positional):
        methods.merge(run, made, slot.value)
    return made


def _cast(_run: Evaluator, arguments: Arguments, _place: Place) -> Value:
    if len(arguments.positional) != 2:
        raise NotKnown
    return arguments.positional[1].value


def _same(_run: Evaluator, arguments: Arguments, _place: Place) -> Value:
    return _one(arguments).value


def _nothing(_run: Evaluator, _arguments: Arguments, place: Place) -> Value:
    return Known(None, place)


def _operator(kind: type[ast.operator]) -> PureFunction:
    return _plain(functools.partial(binary, kind))


def _or(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    values = [slot.value for slot in arguments.positional]
    if len(values) == 2 and isinstance(values[0], Dict) and isinstance(values[1], Dict):
        return methods.unite(run, values[0], values[1], place)
    return _operator(ast.BitOr)(run, arguments, place)


def _item_getter(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    return Bound(LibraryName("operator.getitem.swapped"), (_one(arguments),))


def _get_item(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    one, other = (slot.value for slot in arguments.positional)
    return run.item(one, other, place)


def _get_item_swapped(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    key, one = (slot.value for slot in arguments.positional)
    return run.item(one, key, place)


def _from_keys(run: Evaluator, arguments: Arguments, place: Place) -> Value:
    made = run.state.new_dict(place)
    value = arguments.positional[1] if len(arguments.positional) > 1 else Slot(Known(None, place), place, is_fixed=True)
    for slot in _items(run, arguments.positional[0].value):
        key = methods.key_of(slot.value)
        run.state.put(made, key, Slot(value.value, value.place, slot.place, is_fixed=True))
    return made


FUNCTIONS: dict[str, PureFunction] = {
    **{f"builtins.{one.__name__}": _plain(one) for one in (
        abs, ascii, bin, bool, chr, divmod, float, hex, int, oct, ord, repr,
    )},
    **{f"math.{name}": _plain(getattr(math, name)) for name in (
        "ceil", "exp", "fabs", "floor", "gcd", "hypot", "isclose", "isfinite", "isinf", "isnan", "lcm", "log", "log10",
        "log2", "prod", "sqrt", "trunc", "fsum", "isqrt",
    )},
    "math.pow": _plain(math.pow),
    "builtins.str": _as_text, "builtins.pow": _plain(_power), "builtins.round": _plain(_round),
    "builtins.sum": _plain(sum), "builtins.min": _extreme(min), "builtins.max": _extreme(max),
    "builtins.dict": _dict, "collections.OrderedDict": _dict, "typing.OrderedDict": _dict,
    "builtins.dict.fromkeys": _from_keys,
    "builtins.list": _sequence("list"), "builtins.tuple": _sequence("tuple"), "builtins.set": _sequence("set"),
    "builtins.frozenset": _sequence("set"), "builtins.sorted": _sorted, "builtins.reversed": _reversed,
    "builtins.enumerate": _enumerate, "builtins.zip": _zip, "builtins.map": _map, "builtins.filter": _filter,
    "builtins.iter": _iter, "builtins.next": _next, "builtins.len": _len, "builtins.any": _any_all(True),
    "builtins.all": _any_all(False), "builtins.range": _plain(range), "builtins.slice": _plain(slice),
    "builtins.isinstance": _is_instance, "builtins.issubclass": _is_subclass, "builtins.type": _type,
    "builtins.callable": _callable, "builtins.getattr": _getattr, "builtins.hasattr": _hasattr,
    "builtins.setattr": _setattr, "builtins.vars": _vars, "builtins.print": _nothing,
    "copy.copy": _copy, "copy.deepcopy": _deep_copy, "json.dumps": _dumps, "json.loads": _loads,
    "ast.literal_eval": _plain(_literal), "textwrap.dedent": _plain(textwrap.dedent),
    "os.path.join": _plain(posixpath.join), "os.path.basename": _plain(posixpath.basename),
    "os.path.dirname": _plain(posixpath.dirname), "os.path.splitext": _plain(posixpath.splitext),
    "os.path.normpath": _plain(posixpath.normpath), "os.fspath": _plain(str),
    **{f"pathlib.{name}": _plain(path) for name in ("Path", "PurePath", "PurePosixPath")},
    "dataclasses.asdict": _as_dict, "dataclasses.astuple": _as_tuple, "dataclasses.replace": _replace,
    "copy.replace": _replace, "dataclasses.fields": _fields,
    "types.SimpleNamespace": _namespace, "argparse.Namespace": _namespace, "types.MappingProxyType": _same,
    "collections.defaultdict": _default_dict, "collections.namedtuple": _named_tuple,
    "collections.ChainMap": _chain_map, "namedtuple._asdict": _named_as_dict, "namedtuple._replace": _replace,
    "functools.partial": _partial, "functools.reduce": _reduce,
    "itertools.chain": _chain, "itertools.chain.from_iterable": _chain_all,
    "typing.cast": _cast, "operator.or_": _or, "operator.ior": _or, "operator.itemgetter": _item_getter,
    "operator.getitem": _get_item, "operator.getitem.swapped": _get_item_swapped,
    "operator.add": _operator(ast.Add), "operator.mul": _operator(ast.Mult), "operator.sub": _operator(ast.Sub),
    "operator.truediv": _operator(ast.Div), "operator.floordiv": _operator(ast.FloorDiv),
    "operator.not_": _plain(operator.not_), "operator.eq": _plain(operator.eq),
}  # fmt: skip

# Functions that leave what they get as it is, although nothing is known of what they return.
READING = frozenset({
    "id", "repr", "hash", "dump", "dumps", "safe_dump", "pprint", "pformat", "print", "warn", "HfDeepSpeedConfig",
    "info", "debug", "warning", "error", "exception", "critical", "log", "print_rank_0", "log_dist", "write",
    "format", "str", "len", "isinstance", "type", "bool", "sorted", "list", "tuple", "set", "dict", "copy", "deepcopy",
})  # fmt: skip
_READING_LIBRARIES = ("logging.", "warnings.", "pprint.", "time.", "json.", "yaml.", "rich.", "wandb.", "math.")


def only_reads(name: str) -> bool:
    """Whether a function leaves its arguments as they are."""
    return name.rpartition(".")[2] in READING or name.startswith(_READING_LIBRARIES)

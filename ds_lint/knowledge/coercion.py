"""Which values the libraries accept: pydantic's lax coercions for strict sections, plain Python for the others.

Every function answers one question: which values does the key accept instead, or None if it accepts this value.
Facts with ``lax`` are of a release with pydantic 1 (below 0.15.0), which cuts off fractions, converts a number to a
string, and rejects text for a number of an enum.
Source: pydantic's conversion table (lax mode, Python input), held to the installed pydantic by
``tests/fidelity/test_coercion.py``; ``takes`` in ``schemas/overlay.json`` says what later code does with a raw value.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.knowledge.records import Bound, JsonType
    from ds_lint.knowledge.records import ValueFacts as Facts
    from ds_lint.source.tree import Node, Scalar

_BOOLEAN_TEXTS = frozenset(("0", "off", "f", "false", "n", "no", "1", "on", "t", "true", "y", "yes"))
_INTEGER_TEXT = r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?"
_DIGITS = r"[0-9]+(_[0-9]+)*"
_FLOAT_TEXT = rf"[+-]?(({_DIGITS}\.?({_DIGITS})?|\.{_DIGITS})(e[+-]?{_DIGITS})?|inf(inity)?|nan)"
LARGEST = 2.0**63  # pydantic-core turns a float into an i64 or refuses it
_PAIR = 2  # a key and its value


class Expected:
    """What the libraries accept instead of a value, in words, and the kinds of plain values that are among it."""

    __slots__ = ("kinds", "words")

    def __init__(self, words: str, *kinds: str) -> None:
        self.words = words
        self.kinds = kinds

    def __str__(self) -> str:
        return self.words


_BOOLEAN = Expected("true or false", "boolean")
_WHOLE = Expected("a whole number", "integer")
_NUMBER = Expected("a number", "float")

# What the kinds of ``takes`` are called, in the order in which a message lists them.
_TAKES_WORDS = {
    "bool": _BOOLEAN,
    "int": _WHOLE,
    "float": _NUMBER,
    "str": Expected("a string"),
    "null": Expected("null"),
    "array": Expected("an array"),
    "array-of-str": Expected("an array of strings"),
    "object": Expected("an object"),
    "truthy": Expected("a value that is not empty"),
    "falsy": Expected("false"),
    "auto": Expected('"auto"'),
    "above-one": Expected("a number above 1", "float"),
    "name": Expected("a name without dots"),
    "false": Expected("false"),
    "numbers": Expected("an array of numbers, one for each parameter group"),
    "pair": Expected("an array of two numbers"),
    "unit-pair": Expected("an array of two numbers, each at least 0 and below 1"),
    "eta-pair": Expected("an array of two numbers, the first between 0 and 1 and the second above 1"),
    "null-pair": Expected("an array of two numbers (the first may be null)"),
    "triple": Expected("an array of three numbers"),
    "shape": Expected("an array of sizes of 1 or more, or -1, of which one may be an array of sizes"),
}


def refusal(facts: Facts, strict: bool, node: Node, kind: str, value: Scalar) -> Expected | None:
    """What DeepSpeed accepts instead of this value; None if it accepts the value.

    ``kind`` and ``value`` are those that the reader returns (hjson converts ``100.0`` to ``100``).
    """
    if "takes" in facts:
        return refused_at_parsing(facts, strict, node, kind, value) or _refused_by_code(facts, node, kind, value)
    if strict:
        return _refused_by_pydantic(facts, node, kind, value)
    return None


def refused_at_parsing(facts: Facts, strict: bool, node: Node, kind: str, value: Scalar) -> Expected | None:
    """What pydantic accepts instead of a value that later code checks too; None if it accepts the value."""
    if strict and facts.get("stage", "parse") != "parse":
        return _refused_by_pydantic(facts, node, kind, value)
    return None


def _refused_by_code(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    takes = facts["takes"].split()
    if "any" in takes:
        return None
    if kind == "string" and "one_of" in facts and _is_one_of(value, facts):
        return None
    if kind in ("integer", "float", "boolean") and value in facts.get("numbers", ()):
        return None
    for word in takes:
        if _is_of(word, node, kind, value):
            return _out_of_range(facts, kind, value, _NUMBER if "float" in takes else _WHOLE)
    return _wanted(facts, takes)


def _is_of(word: str, node: Node, kind: str, value: Scalar) -> bool:
    """Whether a value is what one word of ``takes`` names."""
    if word in _KINDS_OF_WORDS:
        return kind in _KINDS_OF_WORDS[word] or (word == "str" and kind == "template")
    test = _TESTS_OF_WORDS.get(word)
    return test is not None and test(node, kind, value)


_TESTS_OF_WORDS: dict[str, Callable[[Node, str, Scalar], bool]] = {
    "truthy": lambda node, _kind, value: _is_truthy(node, value),
    "falsy": lambda node, _kind, value: not _is_truthy(node, value),
    "false": lambda _node, kind, value: kind == "boolean" and not value,
    "auto": lambda _node, _kind, value: value == "auto",
    "above-one": lambda _node, kind, value: kind == "float" and isinstance(value, float) and value > 1,
    "numeric-str": lambda _node, kind, value: kind == "string" and _is_text_of(_FLOAT_TEXT, value),
    "numbers": lambda node, kind, _value: kind == "array" and _are_numbers(node.items, "numbers"),
    "pair": lambda node, kind, _value: kind == "array" and _are_numbers(node.items, "pair"),
    "unit-pair": lambda node, kind, _value: kind == "array" and _are_numbers(node.items, "unit-pair"),
    "eta-pair": lambda node, kind, _value: kind == "array" and _are_etas(node.items),
    "null-pair": lambda node, kind, _value: kind == "array" and _are_numbers_behind_null(node.items),
    "triple": lambda node, kind, _value: (
        kind == "array" and len(node.items) == 3 and _are_numbers(node.items, "numbers")
    ),
    "shape": lambda node, kind, _value: kind == "array" and _is_shape(node.items),
    "name": lambda _node, kind, value: kind == "string" and bool(value) and "." not in str(value),
    "array-of-str": lambda node, kind, _value: kind == "array" and all(item.kind == "string" for item in node.items),
}


def _are_numbers(items: list[Node], word: str) -> bool:
    """Any numbers, two of them, or two from 0 to below 1, as ``torch.optim`` wants its betas."""
    if not all(item.kind in ("integer", "float", "boolean") for item in items):
        return False
    if word == "numbers":
        return bool(items)
    return len(items) == 2 and (word == "pair" or all(0 <= item.value < 1 for item in items))  # type: ignore[operator]


def _are_etas(items: list[Node]) -> bool:
    """A factor to shrink by and one to grow by, as ``Rprop`` of torch wants them."""
    return _are_numbers(items, "pair") and 0 < items[0].value < 1 < items[1].value  # type: ignore[operator]


def _are_numbers_behind_null(items: list[Node]) -> bool:
    """Two numbers, as ``Adafactor`` of torch wants its ``eps``."""
    return len(items) == _PAIR and _are_numbers(items[items[0].kind == "null" :], "numbers")


def _is_shape(items: list[Node]) -> bool:
    """The shape of a weight as AutoTP wants it, where the dimension that is cut may consist of parts.

    Source: ``TPLayerSpec._validate_shape_format`` in ``deepspeed/module_inject/autotp_config.py``.
    """
    parts = [item for item in items if item.kind == "array"]
    sizes = [item for item in items if item.kind != "array"]
    return (
        bool(items)
        and len(parts) <= 1
        and all(bool(part.items) and _are_sizes(part.items) for part in parts)
        and _are_sizes([item for item in sizes if item.value != -1])
    )


def _are_sizes(items: list[Node]) -> bool:
    return all(item.kind in ("integer", "boolean") and int(item.value or 0) > 0 for item in items)


def _is_truthy(node: Node, value: Scalar) -> bool:
    return bool(value or node.members or node.items)


def _is_one_of(value: Scalar, facts: Facts) -> bool:
    if facts.get("case") == "any":
        return str(value).lower() in {str(choice).lower() for choice in facts["one_of"]}
    return value in facts["one_of"]


def _out_of_range(facts: Facts, kind: str, value: Scalar, wanted: Expected) -> Expected | None:
    if facts.get("zero") == "refused" and kind in ("integer", "float", "boolean") and value == 0:
        return Expected(f"{wanted} other than 0", *wanted.kinds)
    if kind in ("integer", "float", "boolean"):
        return _out_of_bounds(facts, float(value or 0) if kind == "boolean" else value, wanted)
    return None


def _wanted(facts: Facts, takes: list[str]) -> Expected:
    parts = [_TAKES_WORDS[word] for word in takes if word in _TAKES_WORDS]
    if "int" in takes and "float" in takes:
        parts.remove(_WHOLE)
    if "int" in takes and "bool" in takes:  # True is 1 to Python; the message leaves it out
        parts.remove(_WHOLE if facts.get("type") == "boolean" else _BOOLEAN)
    choices = facts.get("one_of")
    if choices:
        parts.insert(0, Expected("one of " + ", ".join(f'"{choice}"' for choice in choices)))
    parts = parts or [Expected(str(one)) for one in facts.get("numbers", ())]
    return _either(parts) if parts else Expected("a value that JSON cannot express")


def _either(parts: list[Expected]) -> Expected:
    if len(parts) == 1:
        return parts[0]
    words = [word for one in parts for word in (("true", "false") if one is _BOOLEAN else (one.words,))]
    return Expected(f"{', '.join(words[:-1])} or {words[-1]}", *(kind for one in parts for kind in one.kinds))


def _refused_by_pydantic(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    if kind == "string" and "one_of" in facts:
        return None if value in facts["one_of"] else _wanted(facts, [])
    if "enum" in facts:
        return _refused_enum(facts["enum"], kind, value, facts.get("lax", False))
    types = facts.get("type")
    if types is None:
        return None  # annotated ``object``: any value is accepted
    if isinstance(types, str):
        types = [types]
    if kind == "null":  # pydantic 1 takes null for every field whose default it is
        is_default = facts.get("lax") and "default" in facts and facts["default"] is None
        return None if "null" in types or is_default else _either([_TYPES[name] for name in types])
    refusals = [_CHECKS[wanted](facts, node, kind, value) for wanted in types if wanted != "null"]
    if None in refusals:
        return None
    return refusals[0] if len(refusals) == 1 else _either([_TYPES[name] for name in types])


_TYPES: dict[JsonType, Expected] = {
    "boolean": _BOOLEAN,
    "integer": _WHOLE,
    "number": _NUMBER,
    "string": Expected("a string"),
    "array": Expected("an array"),
    "object": Expected("an object"),
    "null": Expected("null"),
}


def _refused_enum(choices: list[Scalar], kind: str, value: Scalar, lax: bool) -> Expected | None:
    """An enum takes its values; an enum of integers also what turns into one (``"3"``, ``3.0``, ``true``)."""
    words = ", ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices)
    wanted = Expected(f"one of {words}")
    if isinstance(choices[0], str):
        return None if kind == "string" and value in choices else wanted
    if kind in ("integer", "float", "boolean"):
        return None if value in choices else wanted
    number = _integer_of_text(value) if kind == "string" and not lax else None
    return None if number is not None and number in choices else wanted


def _integer_of_text(value: Scalar) -> int | None:
    if not _is_text_of(_INTEGER_TEXT, value):
        return None
    from ds_lint.source.limits import MOST_DIGITS  # few values are texts

    text = str(value).strip().split(".")[0]
    return int(text) if len(text) <= MOST_DIGITS else None  # which pydantic refuses, too


def _is_text_of(pattern: str, value: Scalar) -> bool:
    import re  # compiled only where a config writes a number in quotes

    return re.fullmatch(pattern, str(value).strip().lower(), re.ASCII) is not None


def _refused_boolean(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    if kind == "boolean" or (kind in ("integer", "float") and value in (0, 1)):
        return None
    if kind == "string" and str(value).lower() in _BOOLEAN_TEXTS:
        return None
    return _BOOLEAN


def _refused_integer(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    wanted = _WHOLE
    if facts.get("bool") == "refused" and kind == "boolean":
        return wanted
    number: Scalar = None
    if kind in ("integer", "boolean"):
        number = int(value or 0)
    elif kind == "float" and isinstance(value, float) and facts.get("lax"):
        number = int(value) if value - value == 0 else None  # the fraction is cut off
    elif kind == "float" and isinstance(value, float) and abs(value) < LARGEST:
        number = int(value) if value.is_integer() else None
    elif kind == "string" and not ((facts.get("text") == "digits" or facts.get("lax")) and "." in str(value)):
        number = _integer_of_text(value)
    return wanted if number is None else _out_of_bounds(facts, number, wanted)


def _refused_number(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    wanted = _NUMBER
    if facts.get("bool") == "refused" and kind == "boolean":
        return wanted
    if kind in ("integer", "float", "boolean"):
        return _out_of_bounds(facts, value, wanted)
    if kind == "string" and _is_text_of(_FLOAT_TEXT, value):
        return _out_of_bounds(facts, float(str(value)), wanted)
    return wanted


def _out_of_bounds(facts: Facts, value: Scalar, wanted: Expected) -> Expected | None:
    if not isinstance(value, (int, float)):
        return None
    if facts.get("nan") == "taken" and str(value) == "nan":
        return None  # the bound asks whether a value is outside, which nothing is that is not a number
    minimum, above = facts.get("minimum"), facts.get("exclusiveMinimum")
    maximum, below = facts.get("maximum"), facts.get("exclusiveMaximum")
    if (
        (minimum is None or value >= minimum)
        and (above is None or value > above)
        and (maximum is None or value <= maximum)
        and (below is None or value < below)
        and not (facts.get("finite") and value - value != 0)
    ):
        return None
    bounds = [
        f"{words} {bound}"
        for words, bound in (
            ("of at least", minimum),
            ("above", above),
            ("of at most", maximum),
            ("below", below),
        )
        if bound is not None
    ]
    if not bounds:
        return Expected("a finite number", "float")
    return Expected(f"{wanted} {' and '.join(bounds)}", *wanted.kinds)


def _refused_string(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    taken = ("string", "template", "integer", "float", "boolean") if facts.get("lax") else ("string", "template")
    return None if kind in taken else _TYPES["string"]


def _refused_array(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    items = facts.get("items")
    if kind != "array":
        return Expected("an array of strings") if items and items.get("type") == "string" else _TYPES["array"]
    if items and facts.get("lax"):
        items = {**items, "lax": True}
    if items and any(_refused_by_pydantic(items, item, item.kind, item.value) for item in node.items):
        what = "strings" if "type" in items else ", ".join(f'"{choice}"' for choice in items["enum"])
        return Expected(f"an array of {what}")
    return None


def _refused_object(facts: Facts, node: Node, kind: str, value: Scalar) -> Expected | None:
    is_pairs = all(map(_is_pair, node.items)) if facts.get("unknown") != "rejected" else not node.items
    is_made_one = facts.get("lax") and kind in ("array", "string") and not value and is_pairs  # dict([]) is {}
    return None if kind == "object" or is_made_one else _TYPES["object"]


def _is_pair(item: Node) -> bool:
    """Whether ``dict([item])`` makes an entry of it."""
    if item.kind == "string":
        return len(str(item.value)) == _PAIR
    return item.kind == "array" and len(item.items) == _PAIR and item.items[0].kind not in ("array", "object")


_CHECKS = {
    "boolean": _refused_boolean,
    "integer": _refused_integer,
    "number": _refused_number,
    "string": _refused_string,
    "array": _refused_array,
    "object": _refused_object,
}


_KINDS_OF_WORDS = {
    "any": ("object", "array", "string", "integer", "float", "boolean", "null"),
    "bool": ("boolean",),
    "int": ("integer",),
    "float": ("float",),
    "str": ("string",),
    "null": ("null",),
    "object": ("object",),
    "array": ("array",),
}
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "zero", "bool", "finite", "items", "one_of")


def kinds_taken(facts: Facts, strict: bool) -> frozenset[str]:
    """The kinds of value that are always accepted: they need no call of ``refusal``."""
    if "takes" in facts:
        if strict and facts.get("stage", "parse") != "parse":
            return frozenset()  # pydantic looks at it first
        words = facts["takes"].split()
        if "any" not in words and any(limit in facts for limit in _LIMITS if limit != "one_of"):
            return frozenset()
        return frozenset(kind for word in words for kind in _KINDS_OF_WORDS.get(word, ()))
    if not strict:
        return frozenset(_KINDS_OF_WORDS["any"])
    if any(limit in facts for limit in _LIMITS) or "enum" in facts or "type" not in facts:
        return frozenset()
    types = [facts["type"]] if isinstance(facts["type"], str) else facts["type"]
    return frozenset(kind for name in types for kind in _KINDS_OF_TYPES[name])


def takes_counts(facts: Facts, strict: bool) -> bool:
    """Whether a number of things (elements, bytes, steps) is taken, however large: whole and above 0."""
    if not strict or "takes" in facts or facts.get("type") != "integer":
        return False
    least: tuple[Bound, ...] = ("minimum", "exclusiveMinimum")
    return not any(limit in facts for limit in ("maximum", "exclusiveMaximum", "enum")) and all(
        facts.get(bound, 0) <= 0 for bound in least
    )


_KINDS_OF_TYPES = {
    "boolean": ("boolean",),
    "integer": ("integer",),
    "number": ("integer", "float"),
    "string": ("string",),
    "array": ("array",),
    "object": ("object",),
    "null": ("null",),
}

"""The parameters of a model by its ``config.json`` alone: their shapes, as the classes of transformers make them.

``schemas/shapes.json`` has the shapes of each model type in terms of the keys of its config, found by
``tools/model_shapes.py``. A model type that it does not have, or a config that says what it does not cover, has none.
"""

from __future__ import annotations

import re
from itertools import groupby
from math import prod

from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import KW_ONLY
    from typing import Any

    from ds_lint.knowledge.records import JsonObject, ModelShapes, Substitute
    from ds_lint.knowledge.unknown import Unknown

_TIED = "tie_word_embeddings"
_HEADS = re.compile(r"(^|\.)(n_heads?|num_heads|num_(attention|key_value|kv)_heads)$")
_LONGEST = 24  # of a value in a message


class Kind(Record):
    """Parameters of one name and shape; ``times`` is how many there are, ``#`` in the name stands for a number.

    ``layer`` says what they are the weight of if that is a layer that may get adapters: linear, conv1d or embedding.
    ``first`` is the layer of the model that has the first one.
    """

    name: str
    shape: tuple[int, ...]
    times: int
    layer: str | None = None
    _: KW_ONLY
    first: int = 0

    @property
    def size(self) -> int:
        """How many numbers one of them has."""
        return prod(self.shape)


def kinds(config: JsonObject) -> list[Kind] | None:
    """The parameters of the model of a ``config.json``; None where they are not known.

    Of a model of several modalities those of its text part, and of a class with another head those that all classes of
    the model type have: never more than there are.
    """
    described = _described(config)
    if described is not None:
        return _by_case(described, config)
    text = config.get("text_config")
    if not isinstance(text, dict) or (described := _described(text)) is None:
        return None
    named = text | ({_TIED: config[_TIED]} if _TIED in config else {})
    return _by_case(described, named | {"architectures": None})


def broken(config: JsonObject) -> str | None:
    """What a ``config.json`` says of which no class of transformers makes a model, in words; None if there is nothing.

    Classes divide by the number of heads, and have fields of integers.
    """
    text = config.get("text_config")
    for part in (config, *([text] if isinstance(text, dict) else [])):
        described = _described(part)
        for key, substitute in described["keys"].items() if described is not None else ():
            _, value = _of_key(key, substitute, part)
            if substitute.get("is_text") or value is None or isinstance(value, (bool, float)):
                continue
            if not isinstance(value, int):
                return f"`{key}` is {str(value)[:_LONGEST]!r} and not a number"
            if value < 0 or value >= 2**63 or (value == 0 and _HEADS.search(key)):
                digits = str(value) if abs(value) < 10**_LONGEST else "a number of too many digits"
                return f"`{key}` is {digits}"
    return None


def head(config: JsonObject) -> str | None:
    """The name of the layer that makes logits; None if none is known, or the config names a class with another."""
    described = _described(config)
    if described is None or _is_of_another_class(described, config):
        return None
    return described["head"]


def count(config: JsonObject) -> int | None:
    """How many numbers the parameters of the model of a ``config.json`` have; None where that is not known."""
    found = kinds(config)
    return sum(kind.size * kind.times for kind in found) if found else None


def in_order(found: list[Kind]) -> list[Kind]:
    """One for each parameter, as the model has them: layer by layer, and within a layer in the order of the kinds."""
    ordered: list[Kind] = []
    together: list[Kind] = []
    for kind in [*found, None]:
        stack = kind.name.partition("#")[0] if kind is not None and "#" in kind.name else None
        if together and together[0].name.partition("#")[0] != stack:
            ordered += _layer_by_layer(together)
            together = []
        if stack is not None and kind is not None:
            together.append(kind)
        elif kind is not None:
            ordered.append(kind)
    return ordered


def _layer_by_layer(together: list[Kind]) -> list[Kind]:
    """One for each parameter of a stack of layers; what is numbered within a layer, too, stands there number by number.

    Each head of StableLM has a norm, for instance.
    """
    fewest = min(one.name.count("#") for one in together)
    layers = max(one.first + one.times for one in together if one.name.count("#") == fewest)
    ordered: list[Kind] = []
    for layer in range(layers):
        for stack, several in groupby(together, lambda one: one.name.rpartition("#")[0]):
            of_layer = [one for one in several if one.first <= layer < one.first + one.times]
            is_nested = stack.count("#") >= fewest
            numbers = max((one.times // (layers - one.first) for one in of_layer), default=0) if is_nested else 1
            ordered += of_layer * numbers
    return ordered


def _described(config: JsonObject) -> ModelShapes | None:
    model_type = config.get("model_type")
    store = tables.load("shapes")
    if not isinstance(model_type, str):
        return None
    return store["models"].get(model_type) or store["remote_code"].get(model_type)


def _by_case(described: ModelShapes, config: JsonObject) -> list[Kind] | None:
    """The parameters by the first case of the model type that the config is."""
    cases = (described, *described.get("others", ()))
    try:
        return next((found for one in cases if (found := _evaluated(one, config)) is not None), None)
    except ZeroDivisionError:  # of a size that makes no model
        return None


def _evaluated(described: ModelShapes, config: JsonObject) -> list[Kind] | None:
    if any(_given(config, key, value) != value for key, value in described["fixed"].items()):
        return None
    if any(_given(config, key, UNKNOWN) != value for key, value in described.get("needs", {}).items()):
        return None
    if any(config.get(key) not in (None, config.get(same)) for key, same in described.get("same", {}).items()):
        return None
    values = _values(described["keys"], config)
    if values is None:
        return None
    lookup: Callable[[str], Any] = lambda name: values.get(name, UNKNOWN)  # noqa: E731 - for ``evaluate``
    found = []
    for entry in described["parameters"]:
        if any(values[key] is not value for key, value in entry.get("if", {}).items()):
            continue
        shape = tuple(_number(size, lookup) for size in entry["shape"])
        times = _number(entry.get("times", 1), lookup)
        if times < 0:  # more layers of one kind than there are layers
            return None
        if min(shape, default=0) < 0 or not _is_in_every_class(entry["name"], described, config):
            continue
        first = _number(entry.get("first", 0), lookup)
        found.append(Kind(entry["name"], shape, times, entry.get("layer"), first=first))
    return found


def _values(keys: dict[str, Substitute], config: JsonObject) -> dict[str, bool | int | str | Unknown] | None:
    """What each key is, also where the config leaves it out; None where one is not known."""
    values: dict[str, bool | int | str | Unknown] = {}
    left: dict[str, bool | int | str] = {}
    for key, substitute in keys.items():
        is_given, given = _of_key(key, substitute, config)
        if isinstance(given, str if substitute.get("is_text") else int):
            values[key] = given
        elif given is not None:
            return None
        elif is_given and "null" in substitute:
            left[key] = substitute["null"]
        elif not is_given and "missing" in substitute:
            left[key] = substitute["missing"]
        else:
            return None
    values |= {key: value for key, value in left.items() if not isinstance(value, str)}
    for key, value in left.items():
        if isinstance(value, str):
            values[key] = _number(value, lambda name: values.get(name, UNKNOWN))
    return None if UNKNOWN in values.values() else values


def _of_key(key: str, substitute: Substitute, config: JsonObject) -> tuple[bool, Any]:
    """Whether a config has a key under one of its names, and the value that counts."""
    for name in (*substitute.get("over", ()), key, *substitute.get("also", ())):
        value = _given(config, name, UNKNOWN)
        if value is not UNKNOWN:
            return True, value
    return False, None


def _given(config: JsonObject, key: str, missing: Any = None) -> Any:
    """What a config has at a key, which is dotted if it is one of a part."""
    part, _, name = key.rpartition(".")
    holder = config.get(part) if part else config
    return holder.get(name, missing) if isinstance(holder, dict) else missing


def _number(expression: str | int, lookup: Callable[[str], Any]) -> Any:
    if isinstance(expression, int):
        return expression
    from ds_lint.knowledge.expressions import evaluate

    return evaluate(expression, lookup)


def _is_in_every_class(name: str, described: ModelShapes, config: JsonObject) -> bool:
    """Whether the class that the config names has a parameter; of a class that is not described, its trunk is known."""
    is_another = _is_of_another_class(described, config)
    return not is_another or not described["prefix"] or name.startswith(f"{described['prefix']}.")


def _is_of_another_class(described: ModelShapes, config: JsonObject) -> bool:
    """Whether the config names classes, and not the one that is described."""
    classes = config.get("architectures")
    return isinstance(classes, list) and bool(classes) and described["class"] not in classes

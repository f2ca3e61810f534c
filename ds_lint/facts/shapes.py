"""The parameters of a model by its ``config.json`` alone: their shapes, as the classes of transformers make them.

``schemas/shapes.json`` has the shapes of each model type in terms of the keys of its config, found by
``tools/model_shapes.py``. A model type that it does not have, or a config that says what it does not cover, has none.
"""

from __future__ import annotations

from math import prod

from ds_lint.knowledge import tables
from ds_lint.knowledge.unknown import UNKNOWN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.knowledge.records import JsonObject, ModelShapes, Substitute
    from ds_lint.knowledge.unknown import Unknown

_TIED = "tie_word_embeddings"


class Kind:
    """Parameters of one name and shape; ``times`` is how many there are, ``#`` in the name stands for a number."""

    __slots__ = ("name", "shape", "times")

    def __init__(self, name: str, shape: tuple[int, ...], times: int) -> None:
        self.name = name
        self.shape = shape
        self.times = times

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
        return _evaluated(described, config)
    text = config.get("text_config")
    if not isinstance(text, dict) or (described := _described(text)) is None:
        return None
    named = text | ({_TIED: config[_TIED]} if _TIED in config else {})
    return _evaluated(described, named | {"architectures": None})


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
            ordered += [one for layer in range(max(k.times for k in together)) for one in together if layer < one.times]
            together = []
        if stack is not None and kind is not None:
            together.append(kind)
        elif kind is not None:
            ordered.append(kind)
    return ordered


def _described(config: JsonObject) -> ModelShapes | None:
    model_type = config.get("model_type")
    store = tables.load("shapes")
    if not isinstance(model_type, str):
        return None
    return store["models"].get(model_type) or store["remote_code"].get(model_type)


def _evaluated(described: ModelShapes, config: JsonObject) -> list[Kind] | None:
    if any(key in config and config[key] != value for key, value in described["fixed"].items()):
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
        if min((*shape, times), default=0) < 0 or not _is_in_every_class(entry["name"], described, config):
            continue
        found.append(Kind(entry["name"], shape, times))
    return found


def _values(keys: dict[str, Substitute], config: JsonObject) -> dict[str, bool | int | Unknown] | None:
    """What each key is, also where the config leaves it out; None where one is not known."""
    values: dict[str, bool | int | Unknown] = {}
    left: dict[str, bool | int | str] = {}
    for key, stands_in in keys.items():
        given = config.get(key)
        if isinstance(given, int):
            values[key] = given
        elif given is not None or (case := "null" if key in config else "missing") not in stands_in:
            return None
        else:
            left[key] = stands_in[case]
    values |= {key: value for key, value in left.items() if not isinstance(value, str)}
    for key, value in left.items():
        if isinstance(value, str):
            values[key] = _number(value, lambda name: values.get(name, UNKNOWN))
    return None if UNKNOWN in values.values() else values


def _number(expression: str | int, lookup: Callable[[str], Any]) -> Any:
    if isinstance(expression, int):
        return expression
    from ds_lint.knowledge.expressions import evaluate

    return evaluate(expression, lookup)


def _is_in_every_class(name: str, described: ModelShapes, config: JsonObject) -> bool:
    """Whether the class that the config names has a parameter; of a class that is not described, its trunk is known."""
    classes = config.get("architectures")
    is_another = isinstance(classes, list) and bool(classes) and described["class"] not in classes
    return not is_another or not described["prefix"] or name.startswith(f"{described['prefix']}.")

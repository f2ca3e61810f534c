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
    """Parameters of one name and shape; ``times`` is how many there are, ``#`` in the name stands for a number.

    ``layer`` says what they are the weight of if that is a layer that may get adapters: linear, conv1d or embedding.
    """

    __slots__ = ("layer", "name", "shape", "times")

    def __init__(self, name: str, shape: tuple[int, ...], times: int, layer: str | None = None) -> None:
        self.name = name
        self.shape = shape
        self.times = times
        self.layer = layer

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
            layers = max(one.times for one in together)
            ordered += [one for layer in range(layers) for one in together if layer in _layers_with(one, layers)]
            together = []
        if stack is not None and kind is not None:
            together.append(kind)
        elif kind is not None:
            ordered.append(kind)
    return ordered


def _layers_with(kind: Kind, layers: int) -> range:
    """The layers that have a parameter: layers with experts come after those without (``first_k_dense_replace``)."""
    first = layers - kind.times if "expert" in kind.name or ".gate." in kind.name else 0
    return range(first, first + kind.times)


def _described(config: JsonObject) -> ModelShapes | None:
    model_type = config.get("model_type")
    store = tables.load("shapes")
    if not isinstance(model_type, str):
        return None
    return store["models"].get(model_type) or store["remote_code"].get(model_type)


def _by_case(described: ModelShapes, config: JsonObject) -> list[Kind] | None:
    """The parameters by the first case of the model type that the config is."""
    cases = (described, *described.get("others", ()))
    return next((found for one in cases if (found := _evaluated(one, config)) is not None), None)


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
        if min((*shape, times), default=0) < 0 or not _is_in_every_class(entry["name"], described, config):
            continue
        found.append(Kind(entry["name"], shape, times, entry.get("layer")))
    return found


def _values(keys: dict[str, Substitute], config: JsonObject) -> dict[str, bool | int | Unknown] | None:
    """What each key is, also where the config leaves it out; None where one is not known."""
    values: dict[str, bool | int | Unknown] = {}
    left: dict[str, bool | int | str] = {}
    for key, stands_in in keys.items():
        names = [name for name in (key, *stands_in.get("also", ())) if _given(config, name, UNKNOWN) is not UNKNOWN]
        given = _given(config, names[0]) if names else None
        if isinstance(given, int):
            values[key] = given
        elif given is not None:
            return None
        elif names and "null" in stands_in:
            left[key] = stands_in["null"]
        elif not names and "missing" in stands_in:
            left[key] = stands_in["missing"]
        else:
            return None
    values |= {key: value for key, value in left.items() if not isinstance(value, str)}
    for key, value in left.items():
        if isinstance(value, str):
            values[key] = _number(value, lambda name: values.get(name, UNKNOWN))
    return None if UNKNOWN in values.values() else values


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

"""The files of ``schemas/``, each read once a process.

A checkout reads the JSON. In a wheel those that a check needs are a Python module too, which Python keeps compiled.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from ds_lint.knowledge.records import Loader

_known: dict[str, Any] = {}  # each file has a type of its own, which ``Loader`` knows


def _load(name: str) -> Any:
    """The content of ``schemas/<name>.json``."""
    if name not in _known:
        _known[name] = getattr(_built(), name.upper(), None) or _from_json(name)
    return _known[name]


load: Loader = _load


def _built() -> ModuleType | None:
    """The module that the build makes (tools/built.py); None in a checkout."""
    try:
        return __import__("ds_lint._built", fromlist=["DEEPSPEED"])
    except ImportError:
        return None


class _Plain:
    """Values of JSON as ``json.load`` makes them."""

    strict = True
    object_hook = object_pairs_hook = parse_constant = None
    parse_float, parse_int = float, int


def _from_json(name: str) -> Any:
    from ds_lint.knowledge import resources  # an installed ds-lint does without on the clean path

    with open(resources.path("schemas", f"{name}.json"), encoding="utf-8") as file:
        text = file.read()
    try:  # the part of json that is written in C; the others import re, and a checkout would start half as fast again
        from _json import make_scanner

        return make_scanner(_Plain)(text, 0)[0]  # type: ignore[arg-type]  # anything with these attributes will do
    except (AttributeError, ImportError):  # in another Python
        import json

        return json.loads(text)

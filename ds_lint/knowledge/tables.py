"""The files of ``schemas/``, each read once a process.

A checkout reads the JSON. In a wheel those that a check needs are a Python module too, which Python keeps compiled and
which needs no ``json``.
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


def _from_json(name: str) -> Any:
    import json  # an installed ds-lint does without these on the clean path

    from ds_lint.knowledge import resources

    with open(resources.path("schemas", f"{name}.json"), encoding="utf-8") as file:
        return json.load(file)

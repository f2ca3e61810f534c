"""Functions that run right after a module is imported, before whoever imports it uses it."""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

_waiting: dict[str, list[Callable[[ModuleType], None]]] = {}


def after(name: str, function: Callable[[ModuleType], None]) -> None:
    """Call ``function`` with a module as soon as it is imported; at once if it is already."""
    if (module := sys.modules.get(name)) is not None and not _is_being_imported(module):
        function(module)
        return
    _waiting.setdefault(name, []).append(function)
    if _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Finder:
    """Lets the other finders find a module, and wraps its loader."""

    @classmethod
    def find_spec(cls, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        others = (finder for finder in sys.meta_path if finder is not cls and hasattr(finder, "find_spec"))
        spec = next((spec for finder in others if (spec := finder.find_spec(name, path, target)) is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """The loader of a module, with what is called after it; everything else is asked of the loader itself."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader  # what asks the module for its loader gets the real one
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        # A module may put something else into its place, such as the lazy modules of transformers.
        imported = sys.modules.get(module.__name__, module)
        for function in _waiting.pop(module.__name__, ()):
            function(imported)

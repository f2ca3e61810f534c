"""A package as Python sees it from outside: the names of its modules, and the parameters of what can be called.

Read with ``ast``; nothing is imported. What cannot be known, such as ``from elsewhere import *`` or a module with
``__getattr__``, counts as there: only a name that is certainly missing is a conflict.
"""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_MOST_IMPORTS = 20  # that a name is followed through


class Package:
    """The modules of one release, whose package lies in the folder ``tree``."""

    def __init__(self, tree: Path, name: str) -> None:
        self.tree = tree
        self.name = name
        self.module = cache(self._module)
        self.exports = cache(self._exports)
        self.parameters = cache(self._parameters)

    def path(self, module: str) -> Path | None:
        """The file of a module; None if there is no such module, or it is compiled."""
        place = self.tree.joinpath(*module.split("."))
        return next((path for path in (place / "__init__.py", place.with_suffix(".py")) if path.is_file()), None)

    def has_module(self, module: str) -> bool:
        """Whether there may be such a module."""
        place = self.tree.joinpath(*module.split("."))
        return self.path(module) is not None or place.is_dir()

    def lacks(self, module: str, name: str | None = None) -> bool:
        """Whether a module, or a name of it, is certainly missing."""
        if not self.has_module(module):
            return not self._may_be_compiled(module)
        return name is not None and not self.has_module(f"{module}.{name}") and not self._may_have(module, name)

    def _may_have(self, module: str, name: str) -> bool:
        exports = self.exports(module)
        return exports is None or name in exports

    def _may_be_compiled(self, module: str) -> bool:
        """Whether a module may be an extension, which no listing of Python files shows."""
        return any(part.startswith("_C") for part in module.split("."))

    def _module(self, module: str) -> ast.Module | None:
        path = self.path(module)
        return ast.parse(path.read_text(encoding="utf-8-sig")) if path is not None else None

    def _exports(self, module: str) -> frozenset[str] | None:
        """The names of a module; None if that is not known."""
        parsed = self.module(module)
        if parsed is None:
            return None
        names: set[str] = set()
        for node in walked(parsed.body):
            if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
                source = self.absolute(module, node)
                starred = self.exports(source) if source.split(".")[0] == self.name else None
                if starred is None:
                    return None
                names |= starred
            names.update(_bound(node))
        if "__getattr__" in names or _fills_globals(parsed):
            return None
        return frozenset(names)

    def absolute(self, module: str, node: ast.ImportFrom) -> str:
        """The whole name of the module that an import in ``module`` is from."""
        if not node.level:
            return node.module or ""
        path = self.path(module)
        parts = module.split(".")
        if path is None or path.name != "__init__.py":
            parts = parts[:-1]
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _parameters(self, module: str, name: str) -> frozenset[str] | None:
        """The keywords that a function or a class of a module takes; None if that is not known.

        ``name`` may be that of a method: ``Accelerator.unwrap_model``.
        """
        owner, _, method = name.partition(".")
        found = self._definition(module, owner)
        if found is None:
            return None
        where, node = found
        if isinstance(node, ast.ClassDef):
            return self._of_class(where, node, method or "__init__")
        return _of_function(node) if not method else None

    def _definition(self, module: str, name: str) -> tuple[str, ast.ClassDef | ast.FunctionDef] | None:
        """Where a name is defined, through the imports that lead there."""
        for _ in range(_MOST_IMPORTS):
            parsed = self.module(module)
            if parsed is None:
                return None
            nodes = list(walked(parsed.body))
            definitions = [
                node for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name
            ]
            if definitions:
                return (module, definitions[0]) if len(definitions) == 1 else None
            imports = [
                (self.absolute(module, node), alias.name)
                for node in nodes
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
                if (alias.asname or alias.name) == name
            ]
            if len(set(imports)) != 1 or not imports[0][0].startswith(self.name):
                return None
            module, name = imports[0]
        return None

    def _of_class(self, module: str, node: ast.ClassDef, method: str) -> frozenset[str] | None:
        own = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == method]
        if own:
            decorators = [ast.unparse(one) for one in own[0].decorator_list]
            return _of_function(own[0]) if not decorators else None
        if method == "__init__" and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            inherited = [self.parameters(module, ast.unparse(base)) for base in node.bases]
            if None in inherited:
                return None
            fields = {
                one.target.id
                for one in node.body
                if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
            }
            return frozenset(fields).union(*(one for one in inherited if one is not None))
        return None


def walked(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module that Python may run as it imports it."""
    for node in body:
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            continue
        for field in ("body", "orelse", "finalbody"):
            yield from walked(getattr(node, field, []))
        for handler in getattr(node, "handlers", []):
            yield from walked(handler.body)
        for case in getattr(node, "cases", []):
            yield from walked(case.body)


def _bound(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0]
    else:
        targets = [one for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
        for target in targets:
            yield target.id


def _fills_globals(module: ast.Module) -> bool:
    """Whether names come into a module in ways that no assignment shows."""
    return any(
        (isinstance(node, ast.Name) and node.id == "globals")
        or (isinstance(node, ast.Attribute) and node.attr == "modules" and ast.unparse(node) == "sys.modules")
        for node in ast.walk(module)
    )


def _of_function(node: ast.FunctionDef) -> frozenset[str] | None:
    arguments = node.args
    if arguments.kwarg is not None:
        return None
    return frozenset(one.arg for one in (*arguments.args, *arguments.kwonlyargs))

"""The modules of one release, parsed and never imported, and what each name in them was defined by."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tools.extract.forms import simplified

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


PACKAGE = "deepspeed"


class ImportedModule(NamedTuple):
    """``import name``."""

    name: str


class ImportedName(NamedTuple):
    """``from module import name``."""

    module: str
    name: str


Statement: TypeAlias = "ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef"
Definition: TypeAlias = "Statement | ast.expr | ImportedModule | ImportedName"


class Import(NamedTuple):
    """What one import statement binds; ``starred`` is the module of a ``from module import *``."""

    names: dict[str, Definition]
    starred: str | None = None


@dataclass(eq=False)
class Module:
    """One module: its names, and the modules whose names it takes over with a star."""

    name: str
    is_package: bool
    tree: ast.Module
    names: dict[str, Definition] = field(default_factory=dict)
    starred: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._collect(self.tree.body)

    def imported(self, node: ast.Import | ast.ImportFrom) -> Import:
        """The names that an import statement in this module binds."""
        if isinstance(node, ast.Import):
            modules = ((alias.asname or alias.name.split(".")[0], alias) for alias in node.names)
            return Import({name: ImportedModule(alias.name if alias.asname else name) for name, alias in modules})
        source = self._absolute(node.level, node.module)
        if node.names[0].name == "*":
            return Import({}, source)
        return Import({alias.asname or alias.name: ImportedName(source, alias.name) for alias in node.names})

    def _absolute(self, level: int, name: str | None) -> str:
        if not level:
            return name or ""
        parts = self.name.split(".")
        outer = parts[: len(parts) - level + (1 if self.is_package else 0)]
        return ".".join([*outer, name] if name else outer)

    def _collect(self, body: list[ast.stmt]) -> None:
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.names[node.name] = node
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                binds = self.imported(node)
                self.names |= binds.names
                self.starred += [binds.starred] if binds.starred else []
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                self.names |= _assigned(node)
            elif isinstance(node, (ast.If, ast.With)):
                self._collect([*node.body, *getattr(node, "orelse", ())])
            elif isinstance(node, ast.Try):
                self._collect([*node.body, *node.orelse, *node.finalbody])
                self._collect_fallbacks(node.handlers)

    def _collect_fallbacks(self, handlers: list[ast.ExceptHandler]) -> None:
        """``except ImportError: name = None`` must not hide the import."""
        tried = dict(self.names)
        for handler in handlers:
            self._collect(handler.body)
        self.names |= tried


def _assigned(node: ast.Assign | ast.AnnAssign) -> dict[str, Definition]:
    if node.value is None:
        return {}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    pairs = [pair for target in targets for pair in _pairs(target, node.value)]
    return {name.id: value for name, value in pairs if isinstance(name, ast.Name)}


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, (ast.Tuple, ast.List)):
        if isinstance(value, (ast.Tuple, ast.List)) and len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


class Sources:
    """The unpacked release."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self.package = tree / PACKAGE
        self._modules: dict[str, Module | None] = {}

    def module(self, name: str) -> Module | None:
        """The module of this dotted name; None if it is none of the release's."""
        if name not in self._modules:
            self._modules[name] = self._parsed(name)
        return self._modules[name]

    def _parsed(self, name: str) -> Module | None:
        parts = name.split(".")
        if parts[0] != PACKAGE:  # where a release is installed, so are the libraries that it uses
            return None
        path = self._tree.joinpath(*parts)
        for file, is_package in ((path.with_suffix(".py"), False), (path / "__init__.py", True)):
            if file.is_file():
                return Module(name, is_package, simplified(ast.parse(file.read_text(encoding="utf-8"))))
        return None

    def defining(self, name: str) -> str | None:
        """The file that defines a function or class of this name at its top; None if there is none."""
        pattern = re.compile(rf"^(class|def) {name}\b", re.MULTILINE)
        for path in sorted(self.package.rglob("*.py")):
            if pattern.search(path.read_text(encoding="utf-8", errors="replace")):
                return path.relative_to(self._tree).as_posix()
        return None

    def definition(self, module: Module, name: str) -> tuple[Module, Definition] | None:
        """Where a name was defined, and by what; imports within the release are followed."""
        found = module.names.get(name)
        if isinstance(found, ImportedName):
            source = self.module(found.module)
            return self.definition(source, found.name) if source else None
        return (module, found) if found else None

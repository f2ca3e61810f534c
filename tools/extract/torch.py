"""The constructors of torch that a DeepSpeed config may name as ``optimizer.type`` or ``scheduler.type``.

``optim/__init__.py`` imports the optimizers from files of their own, ``optim/lr_scheduler.py`` has the schedulers. Of
each class the store has the parameters with their defaults, "$required" where there is none; the first one, which is
what it works on, is not a matter of the config.
"""

from __future__ import annotations

import ast
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract import source
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "torch"
STORE = Path(__file__).parent.parent.parent / "schemas" / "torch.json"

_OPTIMIZERS = "torch.optim"
_SCHEDULERS = "torch.optim.lr_scheduler"
_REQUIRED = "$required"
_HARMLESS = {"deprecated", "final", "override"}  # decorators that leave the parameters as they are
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class _Imported(NamedTuple):
    """A name of another module."""

    module: str
    name: str


class _Defined(NamedTuple):
    """A class, a function or a value, and the module whose names it is written with."""

    module: str
    node: source.Definition | ast.expr


class _Class(NamedTuple):
    module: str
    node: ast.ClassDef


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    package = _Package(tree)
    return {
        "optimizers": _constructors(package, _OPTIMIZERS, package.find_class("torch.optim.optimizer", "Optimizer")),
        # ReduceLROnPlateau derives from nothing before 2.2, and is a scheduler all the same.
        "schedulers": _constructors(
            package, _SCHEDULERS, package.find_class(_SCHEDULERS, "LRScheduler"), with_exported=True
        ),
    }


def _constructors(package: _Package, module: str, base: _Class, *, with_exported: bool = False) -> Facts:
    """The parameters of each public class of a module that derives from ``base``, or is one that the module exports."""
    exported = package.exported(module)
    found = {}
    for name in sorted(package.names(module)):
        cls = package.find(module, name)
        if name.startswith("_") or cls is None or not isinstance(cls.node, ast.ClassDef) or cls.node is base.node:
            continue
        lineage = list(package.lineage(_Class(cls.module, cls.node)))
        if (with_exported and name in exported) or any(one.node is base.node for one in lineage):
            found[name] = _parameters(package, name, lineage)
    if not found:
        raise LookupError(f"{module} has no class that derives from {base.node.name}")
    return found


def _parameters(package: _Package, name: str, lineage: list[_Class]) -> Facts:
    """The parameters of a class after ``self`` and what it works on."""
    module, constructor = _constructor(name, lineage)
    arguments = constructor.args
    positional = [*arguments.posonlyargs, *arguments.args]
    if len(positional) < 2 or arguments.vararg or arguments.kwarg:
        raise LookupError(f"the constructor of {name} takes {ast.unparse(arguments)}")
    defaults = [*[None] * (len(positional) - len(arguments.defaults)), *arguments.defaults]
    parameters = [*zip(positional, defaults, strict=True)][2:]
    parameters += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    return {one.arg: _REQUIRED if value is None else _value(package, module, value) for one, value in parameters}


def _constructor(name: str, lineage: list[_Class]) -> tuple[str, ast.FunctionDef]:
    for module, cls in lineage:
        if unknown := _decorators(cls) - _HARMLESS:
            raise LookupError(f"{name} is decorated with {', '.join(sorted(unknown))}")
        methods = [node for node in cls.body if isinstance(node, ast.FunctionDef)]
        if any(node.name == "__new__" for node in methods):
            raise LookupError(f"{name} has a __new__")
        for node in methods:
            if node.name == "__init__" and "overload" not in _decorators(node):
                if unknown := _decorators(node) - _HARMLESS:
                    raise LookupError(f"the constructor of {name} is decorated with {', '.join(sorted(unknown))}")
                return module, node
    raise LookupError(f"{name} has no constructor")


def _decorators(definition: source.Definition) -> set[str]:
    called = (one.func if isinstance(one, ast.Call) else one for one in definition.decorator_list)
    return {ast.unparse(one).rpartition(".")[2] for one in called}


def _value(package: _Package, module: str, node: ast.expr) -> Any:
    """The value of an expression that is a constant, or made of constants and of names that stand for some."""
    match node:
        case ast.Constant(value=None | bool() | int() | float() | str() as value):
            return value
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [_value(package, module, part) for part in parts]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(package, module, operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _ARITHMETIC:
            return _ARITHMETIC[type(operation)](_value(package, module, left), _value(package, module, right))
        case ast.Name(id=name):
            found = package.find(module, name)
            if found is not None and isinstance(found.node, ast.expr):
                if ast.unparse(found.node) == "_RequiredParameter()":  # how SGD says it before 2.2
                    return _REQUIRED
                return _value(package, found.module, found.node)
    raise LookupError(f"{ast.unparse(node)} is not a constant")


class _Package:
    """What the names of ``torch.optim`` and of the modules below it stand for."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._modules: dict[str, dict[str, _Imported | source.Definition | ast.expr]] = {}

    def names(self, module: str) -> dict[str, _Imported | source.Definition | ast.expr]:
        """The names that a module defines and imports, whatever runs on no condition."""
        if module not in self._modules:
            self._modules[module] = dict(self._named(module))
        return self._modules[module]

    def find(self, module: str, name: str) -> _Defined | None:
        """What a name stands for; None if it is a module, or nothing of ``torch.optim``."""
        meaning = self.names(module).get(name)
        if isinstance(meaning, ast.Name) and meaning.id != name:
            return self.find(module, meaning.id)
        if not isinstance(meaning, _Imported):
            return _Defined(module, meaning) if meaning is not None else None
        is_inside = f"{meaning.module}.".startswith(f"{_OPTIMIZERS}.")
        return self.find(*meaning) if is_inside and not self._is_module(".".join(meaning)) else None

    def find_class(self, module: str, name: str) -> _Class:
        """The class of this name."""
        found = self.find(module, name)
        if found is None or not isinstance(found.node, ast.ClassDef):
            raise LookupError(f"{module} has no class {name}")
        return _Class(found.module, found.node)

    def exported(self, module: str) -> list[str]:
        """What a module exports by its ``__all__``; torch.optim has none before 2.5."""
        listed = self.names(module).get("__all__")
        names: list[str] = _value(self, module, listed) if isinstance(listed, ast.expr) else []
        for name in names:
            if self.find(module, name) is None and not self._is_module(f"{module}.{name}"):
                raise LookupError(f"{module} exports {name}, which is not found")
        return names

    def lineage(self, cls: _Class) -> Iterator[_Class]:
        """A class and those that it derives from, in the order in which a constructor is looked up."""
        yield cls
        for base in cls.node.bases:
            if isinstance(base, ast.Name) and base.id == "object":
                continue
            if not isinstance(base, ast.Name):
                raise LookupError(f"{cls.node.name} derives from {ast.unparse(base)}")  # noqa: TRY004 - another layout
            yield from self.lineage(self.find_class(cls.module, base.id))

    def _named(self, module: str) -> Iterator[tuple[str, _Imported | source.Definition | ast.expr]]:
        for node in source.parse(self._path(module)).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                yield node.name, node
            elif isinstance(node, ast.ImportFrom):
                origin = self._origin(module, node)
                for alias in node.names:
                    yield alias.asname or alias.name, _Imported(origin, alias.name)
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id, node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                yield node.target.id, node.value

    def _origin(self, module: str, node: ast.ImportFrom) -> str:
        """The module that is imported from, by its full name."""
        if not node.level:
            return node.module or ""
        is_package = self._path(module).name == "__init__.py"
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + is_package]
        return ".".join([*parts, *filter(None, [node.module])])

    def _path(self, module: str) -> Path:
        folder = self._tree.joinpath(*module.split("."))
        return folder / "__init__.py" if folder.is_dir() else folder.with_name(f"{folder.name}.py")

    def _is_module(self, name: str) -> bool:
        return self._path(name).is_file()

"""What scripts import for FSDP: the names in the modules of ``torch.distributed`` that are about it.

The store has a record for each module and, unless the module is private, for each of its public names, by the full name
by which a script imports it. One that can be called has its ``parameters`` in their order, ``required`` are those
without a default, ``positional`` is how many need no keyword if others do, and ``is_open`` says that it takes further
ones. An enumeration has its ``members``.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

from tools.extract import source
from tools.extract.history import Facts, at, changes, merged

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LIBRARY", "STORE", "at", "changes", "extract", "merged"]

LIBRARY = "torch"
STORE = Path(__file__).parent.parent.parent / "schemas" / "fsdp.json"

# Packages below torch/distributed, with all that is in them; ``_fsdp`` is what FSDP was in before 1.11.
_PACKAGES = ("fsdp", "_fsdp", "_composable")
_MODULES = ("algorithms._checkpoint.checkpoint_wrapper", "checkpoint.state_dict")
_ABOUT_FSDP = tuple(f"torch.distributed.{name}" for name in (*_PACKAGES, *_MODULES))
_PRIVATE_PARTS = ("_fsdp", "_composable", "_checkpoint", "_fully_shard")  # which scripts import all the same
_ENUMS = ("Enum", "IntEnum", "enum.Enum")
_PLAIN_BASES = ("nn.Module", "torch.nn.Module", "object", "ABC", "abc.ABC")  # which take no part in a constructor
_DEPTH = 8  # of imports that lead to each other
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def extract(tree: Path) -> Facts:
    """The facts of the release whose package lies in this folder."""
    package = _Package(tree)
    found: Facts = {}
    for module in sorted(package.modules()):
        found.setdefault(module, {})  # unless its package has a function of this name
        for name in package.names(module) if _is_public(module) else ():
            if not name.startswith("_"):
                found[f"{module}.{name}"] = package.facts(module, name)
    for required in ("FullyShardedDataParallel", "MixedPrecision", "ShardingStrategy"):
        if not found.get(f"torch.distributed.fsdp.{required}"):
            raise LookupError(f"torch.distributed.fsdp has no {required} that can be read")
    return {"names": found}


class _Package:
    """The names of the modules of ``torch.distributed``."""

    def __init__(self, tree: Path) -> None:
        self._tree = tree
        self._names: dict[str, dict[str, ast.AST | tuple[str, str]]] = {}

    def modules(self) -> Iterator[str]:
        folder = self._tree / "torch" / "distributed"
        for package in _PACKAGES:
            for path in (folder / package).rglob("*.py"):
                parts = path.relative_to(self._tree).with_suffix("").parts
                yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        for module in _MODULES:
            if self._path(f"torch.distributed.{module}").is_file():
                yield f"torch.distributed.{module}"

    def names(self, module: str) -> dict[str, ast.AST | tuple[str, str]]:
        """What a module binds, whatever conditions are around it: a definition, or where it is imported from."""
        if module not in self._names:
            self._names[module] = {}  # also for modules that import each other
            self._names[module] = dict(self._bound(module, source.parse(self._path(module)).body))
        return self._names[module]

    def facts(self, module: str, name: str) -> Facts:
        """How a name is called, or which members it has; nothing of a value."""
        home, node = self._definition(module, name)
        if isinstance(node, _FUNCTION):
            return _parameters(node.args, skipped=0)
        if not isinstance(node, ast.ClassDef):
            return {}
        if any(ast.unparse(base) in _ENUMS for base in node.bases):
            return {"members": [target.id for target in _assigned(node)]}
        return self._constructor(home, node)

    def _constructor(self, module: str, node: ast.ClassDef, depth: int = _DEPTH) -> Facts:
        """The parameters of a class, by its ``__init__`` or the fields of a dataclass; nothing if a base is unknown."""
        for one in node.body:
            if isinstance(one, ast.FunctionDef) and one.name in ("__init__", "__new__"):
                return _parameters(one.args, skipped=1) if one.name == "__init__" else {}
        if any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            fields = self._fields(module, node)
            return {
                "parameters": list(fields),
                "required": [name for name, has_default in fields.items() if not has_default],
            }
        for base in node.bases:
            if ast.unparse(base) not in _PLAIN_BASES:
                home, found = self._definition(module, ast.unparse(base))
                return self._constructor(home, found, depth - 1) if isinstance(found, ast.ClassDef) and depth else {}
        return {}

    def _fields(self, module: str, node: ast.ClassDef) -> dict[str, bool]:
        """The fields of a dataclass, those of its bases first, each with whether it has a default."""
        fields: dict[str, bool] = {}
        for base in node.bases:
            home, found = self._definition(module, ast.unparse(base))
            if isinstance(found, ast.ClassDef):
                fields |= self._fields(home, found)
        for one in node.body:
            if not isinstance(one, ast.AnnAssign) or "init=False" in ast.unparse(one):
                continue
            if isinstance(one.target, ast.Name):
                fields[one.target.id] = one.value is not None
        return fields

    def _definition(self, module: str, name: str, depth: int = _DEPTH) -> tuple[str, ast.AST | None]:
        """The definition of a name and the module that it is in; None if it is elsewhere."""
        found = self.names(module).get(name)
        if not isinstance(found, tuple):
            return module, found
        home, original = found
        if depth == 0 or not home.startswith(_ABOUT_FSDP):
            return module, None
        return self._definition(home, original, depth - 1)

    def _bound(self, module: str, body: list[ast.stmt]) -> Iterator[tuple[str, ast.AST | tuple[str, str]]]:
        for node in body:
            if isinstance(node, (ast.ClassDef, *_FUNCTION)):
                if not any("overload" in ast.unparse(one) for one in node.decorator_list):
                    yield node.name, node
            elif isinstance(node, ast.ImportFrom):
                yield from self._imported(module, node)
            elif isinstance(node, ast.Import):
                yield from ((alias.asname or alias.name.partition(".")[0], ("", "")) for alias in node.names)
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    parts = target.elts if isinstance(target, ast.Tuple) else [target]
                    yield from ((one.id, node) for one in parts if isinstance(one, ast.Name))
            else:
                is_for_checkers = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
                for part in ("orelse",) if is_for_checkers else ("body", "orelse", "finalbody"):
                    yield from self._bound(module, getattr(node, part, []))
                for handler in getattr(node, "handlers", []):
                    yield from self._bound(module, handler.body)

    def _imported(self, module: str, node: ast.ImportFrom) -> Iterator[tuple[str, tuple[str, str]]]:
        origin = self._origin(module, node)
        for alias in node.names:
            if alias.name == "*":
                yield from ((name, (origin, name)) for name in self._public(origin))
            else:
                yield alias.asname or alias.name, (origin, alias.name)

    def _public(self, module: str) -> list[str]:
        if not module.startswith("torch.distributed") or not self._path(module).is_file():
            raise LookupError(f"everything is imported from {module}")
        return [name for name in self.names(module) if not name.startswith("_")]

    def _origin(self, module: str, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + (self._path(module).name == "__init__.py")]
        return ".".join([*parts, *filter(None, [node.module])])

    def _path(self, module: str) -> Path:
        folder = self._tree.joinpath(*module.split("."))
        return folder / "__init__.py" if (folder / "__init__.py").is_file() else folder.with_name(f"{folder.name}.py")


def _is_public(module: str) -> bool:
    return all(not part.startswith("_") or part in _PRIVATE_PARTS for part in module.split("."))


def _parameters(arguments: ast.arguments, *, skipped: int) -> Facts:
    positional = [*arguments.posonlyargs, *arguments.args]
    required = positional[skipped : len(positional) - len(arguments.defaults)]
    required += [one for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value is None]
    facts: Facts = {
        "parameters": [one.arg for one in (*positional[skipped:], *arguments.kwonlyargs)],
        "required": [one.arg for one in required],
    }
    if arguments.kwonlyargs:
        facts["positional"] = len(positional) - skipped
    if arguments.vararg or arguments.kwarg:
        facts["is_open"] = True
    return facts


def _assigned(node: ast.ClassDef) -> Iterator[ast.Name]:
    for one in node.body:
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            yield one.targets[0]

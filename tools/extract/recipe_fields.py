"""Bring ``schemas/recipe_fields.json`` up to new releases: the fields that frameworks take, in recipes and as flags.

    python -m tools.extract.recipe_fields axolotl 0.20.0
    python -m tools.extract.recipe_fields --all --cache DIR [--check]

Each field has the releases that have it, and what its type lets through. Fields that a framework inherits from
transformers are in ``schemas/transformers.json``. Standard output is the change log.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.argument_types import reading_of
from tools.extract import history
from tools.extract.framework_stores import FrameworkStore
from tools.extract.framework_stores import main as run
from tools.extract.frameworks import FRAMEWORKS, Facts, is_of
from tools.extract.releases import available, number
from tools.extract.source import parse

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator
    from pathlib import Path

    from ds_lint.frameworks.layout import FieldLayout
    from ds_lint.frameworks.record import Framework
    from tools.extract.reading import Parser

__all__ = ["STORE", "extract", "main"]

_FRAMEWORKS = {name: one for name, one in FRAMEWORKS.items() if one.fields is not None}
_MOST_NESTED = 4  # down to the fields
_TYPING = {"Any", "Dict", "List", "Literal", "Optional", "Sequence", "Tuple", "Union"}
_REQUIRES = re.compile(r"^Requires-Dist: transformers(?![\w-])[ (]*([^;)\n]*)\)?[ ]*(?:;(.*))?$", re.MULTILINE)


class _Class(NamedTuple):
    node: ast.ClassDef
    path: Path


class _Package:
    """The classes of a package, each found as Python finds it from the module that names it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules: dict[Path, ast.Module] = {}

    def module(self, path: Path) -> ast.Module:
        """The syntax tree of a module."""
        if path not in self._modules:
            self._modules[path] = parse(path)
        return self._modules[path]

    def find(self, name: str, path: Path, seen: frozenset[tuple[str, Path]] = frozenset()) -> _Class | None:
        """The class that a name of a module stands for; None for one of another library."""
        if (name, path) in seen:
            return None
        seen |= {(name, path)}
        for node in ast.walk(self.module(path)):
            if isinstance(node, ast.ClassDef) and node.name == name:
                return _Class(node, path)
        for node in ast.walk(self.module(path)):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name and (found := self._imported(node, alias.name, path, seen)):
                        return found
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and _names(node.targets) == [name]:
                return self.find(node.value.id, path, seen)
        return None

    def spelled(self, annotation: ast.expr, path: Path) -> str:
        """An annotation with the values of the enumerations that it names."""
        text = ast.unparse(annotation).strip("'\"")
        for name in sorted(set(re.findall(r"\b[A-Z]\w+\b", text)) - _TYPING):
            found = self.find(name, path)
            values = _values(found.node) if found is not None else []
            if values:
                text = re.sub(rf"\b{name}\b", f"Literal{values!r}", text)
        return text

    def _imported(
        self, node: ast.ImportFrom, name: str, path: Path, seen: frozenset[tuple[str, Path]]
    ) -> _Class | None:
        if node.level:
            base = path.parent
            for _ in range(node.level - 1):
                base = base.parent
        else:
            first, _, _rest = (node.module or "").partition(".")
            if first != self._folder.name:
                return None
            base = self._folder.parent
        place = base.joinpath(*(node.module or "").split(".")) if node.module else base
        for file in (place / name / "__init__.py", place / f"{name}.py"):
            if file.is_file() and node.module is None:
                return None  # a module
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file():
                return self.find(name, file, seen)
        return None


def _values(cls: ast.ClassDef) -> list[str]:
    """The values of an enumeration of words."""
    if not any("Enum" in ast.unparse(base) for base in cls.bases):
        return []
    values = [node.value for node in cls.body if isinstance(node, ast.Assign)]
    words = [one.value for one in values if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return words if len(words) == len(values) else []


def _names(targets: list[ast.expr]) -> list[str]:
    return [target.id for target in targets if isinstance(target, ast.Name)]


def extract(framework: Framework, tree: Path, release: str | None = None) -> Facts:
    """The fields that one release takes."""
    layout = framework.fields
    if layout is None:
        raise LookupError(f"the record of {framework.name} does not say where its source has the fields")
    folder = _folder(layout, tree)
    package = _Package(folder)
    fields: dict[str, Facts] = {}
    commands: dict[str, list[str]] = {}
    foreign: set[str] = set()
    for command, roots in layout.roots.items():
        for root in roots:
            if not is_of(root.part, release):
                continue
            path = next((one for name in root.modules if (one := folder / name).is_file()), None)
            found = package.find(root.part.what, path) if path is not None else None
            if found is None:
                raise LookupError(f"there is no class {root.part.what} in {' or '.join(root.modules)} of {tree}")
            for name, facts in _fields(found, package, layout, foreign).items():
                if fields.setdefault(name, facts) != facts and command not in commands[name]:
                    fields[name] = {}  # of another type in each command: which one runs is not always known
                if command not in commands.setdefault(name, []):
                    commands[name].append(command)
    every = list(layout.roots)
    for name, facts in fields.items():
        if commands[name] != every:
            facts["commands"] = commands[name]
    if unknown := foreign - set(layout.foreign):
        raise LookupError(f"classes inherit from {', '.join(sorted(unknown))}, which are not known")
    read = _read_names(folder, layout) if layout.is_pydantic else _popped(folder, layout)
    return {"fields": _with_read(fields, read), "requires": {} if layout.is_pydantic else _requires(tree)}


def _with_read(fields: dict[str, Facts], read: _Read) -> dict[str, Facts]:
    """The fields with those that are only looked up, and without the types of those that may have another value."""
    every = {**fields, **{name: {"is_read": True} for name in read.every - set(fields)}}
    for name in read.replaced & set(every):
        every[name] = {fact: known for fact, known in every[name].items() if fact == "commands"}
    return every


def _folder(layout: FieldLayout, tree: Path) -> Path:
    for place in (tree / layout.package, tree / "src" / layout.package):
        if place.is_dir():
            return place
    raise LookupError(f"there is no package {layout.package} in {tree}")


def _fields(cls: _Class, package: _Package, layout: FieldLayout, foreign: set[str]) -> dict[str, Facts]:
    """The fields of a class: its own before those of its bases, which come from the left."""
    found = dict(_own(cls, package, is_model=layout.is_pydantic))
    for base in cls.node.bases:
        name = ast.unparse(base).split(".")[-1].partition("[")[0]
        inherited = package.find(name, cls.path)
        if inherited is None or inherited.node is cls.node:
            foreign.add(name if inherited is None else f"another {name}")
            continue
        for field, facts in _fields(inherited, package, layout, foreign).items():
            found.setdefault(field, facts)
    return found


def _own(cls: _Class, package: _Package, *, is_model: bool) -> Iterator[tuple[str, Facts]]:
    if not is_model and not any("dataclass" in ast.unparse(one) for one in cls.node.decorator_list):
        return
    converted = _converted(cls.node) if is_model else frozenset()
    refused = dict(_refused(cls.node)) if is_model else {}
    for node in cls.node.body:
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        name, annotation = node.target.id, ast.unparse(node.annotation)
        if name.startswith("_") or "ClassVar" in annotation or _is_made_later(node.value):
            continue
        facts = {} if name in converted else reading_of(package.spelled(node.annotation, cls.path), is_model=is_model)
        if name in refused:
            facts = {"refused": refused[name]}
        yield name, facts
        for alias in _aliases(node.value):
            yield alias, facts


def _is_made_later(value: ast.expr | None) -> bool:
    """``field(init=False)``, which no parser sets."""
    return isinstance(value, ast.Call) and any(
        one.arg == "init" and isinstance(one.value, ast.Constant) and one.value.value is False for one in value.keywords
    )


def _aliases(value: ast.expr | None) -> Iterator[str]:
    """Other names of a field of a pydantic model."""
    for one in value.keywords if isinstance(value, ast.Call) else ():
        if one.arg in ("alias", "validation_alias"):
            yield from (
                part.value
                for part in ast.walk(one.value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )


def _converted(cls: ast.ClassDef) -> frozenset[str]:
    """The fields that a validator of the class gets before pydantic converts them."""
    names: set[str] = set()
    for function in (node for node in cls.body if isinstance(node, ast.FunctionDef)):
        for one in function.decorator_list:
            if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("field_validator"):
                names |= _identifiers(set(map(_text_of, one.args)))
    return frozenset(names)


def _refused(cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The fields that a validator rejects whatever they are, with its message."""
    for function in (node for node in cls.body if isinstance(node, ast.FunctionDef)):
        fields = [
            str(_text_of(part))
            for one in function.decorator_list
            if isinstance(one, ast.Call) and ast.unparse(one.func).endswith("field_validator")
            for part in one.args
            if isinstance(part, ast.Constant)
        ]
        first, *_ = function.body
        if len(fields) != 1 or not isinstance(first, ast.If) or not isinstance(first.body[-1], ast.Raise):
            continue
        test, raised = ast.unparse(first.test), first.body[-1].exc
        message = raised.args[0] if isinstance(raised, ast.Call) and raised.args else None
        is_set = test in (fields[0], f"{fields[0]} is not None")
        if is_set and isinstance(message, ast.Constant) and isinstance(message.value, str):
            yield fields[0], message.value


class _Read(NamedTuple):
    """The names that validators and plugins look up; ``replaced`` are those that may have another value afterwards."""

    every: frozenset[str]
    replaced: frozenset[str]


def _read_names(folder: Path, layout: FieldLayout) -> _Read:
    every, replaced = set[Any](), set[Any]()
    for path in (path for pattern in layout.readers for path in sorted(folder.glob(pattern))):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("get", "pop", "setdefault"):
                    (every if node.func.attr == "get" else replaced).update(map(_text_of, node.args[:1]))
            elif isinstance(node, ast.Subscript):
                (every if isinstance(node.ctx, ast.Load) else replaced).add(_text_of(node.slice))
            elif isinstance(node, (ast.List, ast.Set, ast.Tuple)) and len(node.elts) > 1:
                replaced.update(map(_text_of, node.elts))
            elif isinstance(node, ast.Dict):
                replaced.update(_text_of(key) for key in node.keys if key is not None)
            elif isinstance(node, ast.Compare):
                every.add(_text_of(node.left))
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cfg":
                every.add(node.attr)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and path.name == "args.py":
                every.add(node.target.id)  # a field of a plugin
    return _Read(_identifiers(every | replaced), _identifiers(replaced))


def _popped(folder: Path, layout: FieldLayout) -> _Read:
    """The keys of a recipe that the program takes out of it."""
    nodes = (node for pattern in layout.readers for path in folder.glob(pattern) for node in ast.walk(parse(path)))
    taken = {
        _text_of(node.args[0])
        for node in nodes
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "config.pop"
    }
    return _Read(_identifiers(taken), frozenset())


def _text_of(node: ast.AST) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _identifiers(found: set[Any]) -> frozenset[str]:
    return frozenset(one for one in found if isinstance(one, str) and one.isidentifier() and len(one) > 1)


def _requires(tree: Path) -> Facts:
    """The releases of transformers that the metadata demand; of several markers, each is possible."""
    files = [*tree.glob("*.dist-info/METADATA"), *tree.glob("PKG-INFO")]
    text = files[0].read_text(encoding="utf-8") if files else ""
    demands = [specifier.strip() for specifier, marker in _REQUIRES.findall(text) if "extra" not in marker]
    demands = [",".join(sorted(filter(None, map(str.strip, one.split(","))))) for one in demands]
    return {"transformers": {"specifier": " || ".join(dict.fromkeys(demands))}} if all(demands) and demands else {}


def _is_line(value: object, depth: int, _key: str) -> bool:
    """Each list and each field."""
    return not isinstance(value, dict) or depth >= _MOST_NESTED


def _taken(facts: Facts) -> Facts:
    """The facts for the change log: without names that are only looked up."""
    taken = {name: one for name, one in facts.get("fields", {}).items() if "is_read" not in one}
    return {"taken": taken, "requires": facts.get("requires", {})}


class _Fields(FrameworkStore):
    def add_options(self, parser: Parser) -> None:
        parser.add_argument("--all", action="store_true", help="every release of the index that the record knows")

    def changes(self, before: Facts, after: Facts) -> list[str]:
        """Which of the names are fields is what ``tools.extract.recipes`` prints."""
        return history.changes(_taken(before), _taken(after))

    def named(self, name: str, options: argparse.Namespace) -> list[str]:
        framework = self.frameworks[name]
        if not options.all or framework.fields is None:
            return super().named(name, options)
        oldest = number(framework.fields.since)
        return [one for one in available(framework.package) if number(one) >= oldest]


STORE = _Fields("recipe_fields", _FRAMEWORKS, extract, _is_line, indent=0)
main = partial(run, STORE, __doc__)

if __name__ == "__main__":
    sys.exit(main())

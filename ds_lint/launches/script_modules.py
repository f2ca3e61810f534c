"""The modules of a project that a training script imports from, and what the names of a module stand for there."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import ImportedNames
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed
from ds_lint.source.python_values import Values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeAlias

    # Finds the module of a dotted name, which begins with a dot for each level of a relative import, for the module
    # at a path: its own path and its text, or None.
    FindModule: TypeAlias = Callable[[str, str], "tuple[str, str] | None"]

_LIBRARIES = ("transformers", "trl")
_DEEPEST = 6  # modules that only hand on a name


class DefinedClass(NamedTuple):
    """A class with the module of the project that defines it."""

    node: ast.ClassDef
    module: ScriptModule


class ScriptModule:
    """A module of the project; ``path`` is "" for the script itself if nothing tells where it is."""

    def __init__(self, text: str, path: str, find: FindModule | None, *, depth: int = 0) -> None:
        self.text = text
        self.path = path
        self.names = ModuleNames(parsed(text))
        self.imported = ImportedNames(self.names)
        self._find = find
        self._depth = depth
        self._others: dict[str, ScriptModule | None] = {}
        self._meant: dict[str, DefinedClass | str] = {}  # by a name

    @cached_property
    def values(self) -> Values:
        """What its expressions are."""
        return Values(self.names, self.text)

    @cached_property
    def classes(self) -> dict[str, list[ast.ClassDef]]:
        """Its classes by name."""
        found: dict[str, list[ast.ClassDef]] = {}
        for node in self.names.every(ast.ClassDef):
            found.setdefault(node.name, []).append(node)
        return found

    def other(self, name: str) -> ScriptModule | None:
        """Another module of the project; None if it is none, or Python does not parse it."""
        if name not in self._others:
            found = self._find(name, self.path) if self._find is not None and self._depth < _DEEPEST else None
            self._others[name] = None if found is None else _module(*found, self._find, self._depth + 1)
        return self._others[name]

    def class_of(self, name: str, *, but: ast.ClassDef | None = None) -> DefinedClass | str:
        """The class of the project that a name means, else the full name by which a library has it.

        A class that has its base's own name, as in ``class TrainingArguments(TrainingArguments)``, means an import:
        ``but`` is that class. The name is empty if it means something else.
        """
        if but is not None:
            return self._class_of(name, but)
        if name not in self._meant:
            self._meant[name] = ""  # of names that modules import from each other
            self._meant[name] = self._class_of(name, None)
        return self._meant[name]

    def _class_of(self, name: str, but: ast.ClassDef | None) -> DefinedClass | str:
        own = [node for node in self.classes.get(name, ()) if node is not but]
        if own:
            return DefinedClass(own[0], self) if len(own) == 1 and but not in self.classes[name] else ""
        bound = list(self._bound(name))
        if bound:
            return bound[0] if all(one == bound[0] for one in bound) else ""
        for statement in self.names.imports:  # from arguments import *
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                found = self._of_module(f"{'.' * statement.level}{statement.module or ''}", name)
                if isinstance(found, DefinedClass) or found.partition(".")[0] in _LIBRARIES:
                    return found
        return ""

    def _bound(self, name: str) -> Iterator[DefinedClass | str]:
        """What each import that binds a name makes of it: one in a branch may do so for another."""
        first, _, rest = name.partition(".")
        for statement in self.names.imports:
            for alias in statement.names:
                is_from = isinstance(statement, ast.ImportFrom)
                if first != (alias.asname or (alias.name if is_from else alias.name.partition(".")[0])):
                    continue
                if isinstance(statement, ast.ImportFrom):
                    yield self._imported(f"{'.' * statement.level}{statement.module or ''}", alias.name, rest)
                else:
                    module, _, last = (f"{alias.name}.{rest}" if alias.asname else name).rpartition(".")
                    yield self._of_module(module, last)

    def _imported(self, module: str, name: str, rest: str) -> DefinedClass | str:
        """What ``from module import name`` binds, and the attribute of it."""
        if not rest:
            return self._of_module(module, name)
        below = f"{module}{'' if module.endswith('.') else '.'}{name}"  # from . import arguments
        owner, _, last = f"{below}.{rest}".rpartition(".")
        return self._of_module(owner, last)

    def _of_module(self, module: str, name: str) -> DefinedClass | str:
        package = module.partition(".")[0]
        if package in _LIBRARIES:  # whose modules are not read; a copy of one in the project may have other classes
            is_copy = self._find is not None and self._find(package, self.path) is not None
            return "" if is_copy else f"{module}.{name}"
        other = self.other(module)
        if other is None:
            return f"{module}.{name}"
        return other.class_of(name)

    def with_imported(self, words: frozenset[str]) -> Iterator[ScriptModule]:
        """The module itself, and those of the project that it imports from and that have one of these words."""
        yield self
        if self._find is None:
            return
        names: dict[str, None] = {}
        for statement in self.names.imports:
            if isinstance(statement, ast.ImportFrom):
                names[f"{'.' * statement.level}{statement.module or ''}"] = None
            else:
                names.update(dict.fromkeys(alias.name for alias in statement.names))
        for name in names:
            found = self._find(name, self.path)  # to parse a module takes longer than to search its text
            has_word = found is not None and any(word in found[1] for word in words)
            if has_word and (other := self.other(name)) is not None:
                yield other

    def imported_dict(self, name: str) -> tuple[str, int] | None:
        """The path of the module that assigns an imported variable once, and where the dict begins that it gets."""
        for statement in self.names.every(ast.ImportFrom):
            for alias in statement.names:
                if name != (alias.asname or alias.name):
                    continue
                other = self.other(f"{'.' * statement.level}{statement.module or ''}")
                found = other.names.assignments(alias.name, other.names.module) if other is not None else []
                value = found[0].value if len(found) == 1 else None
                if other is not None and isinstance(value, ast.Dict):
                    return other.path, other.values.span(value).start
        return None

    def called_functions(self) -> Iterator[tuple[ScriptModule, str]]:
        """The functions of other modules of the project that it imports and calls, by their names there."""
        called = {dotted_name(call.func) for call in self.names.calls}
        for statement in self.names.imports:
            for alias in statement.names:
                bound = alias.asname or alias.name
                if isinstance(statement, ast.ImportFrom):
                    module = f"{'.' * statement.level}{statement.module or ''}"
                    if bound in called and (other := self.other(module)) is not None:
                        yield other, alias.name
                    below = f"{module}{'' if module.endswith('.') else '.'}{alias.name}"  # a module of the package
                else:
                    below = alias.name
                for name in called:
                    owner, _, function = name.rpartition(".")
                    if owner == bound and (other := self.other(below)) is not None:
                        yield other, function


def _module(path: str, text: str, find: FindModule | None, depth: int) -> ScriptModule | None:
    try:
        return ScriptModule(text, path, find, depth=depth)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None

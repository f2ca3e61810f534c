"""What the Python of a notebook does for the commands behind it: variables, folders, files, programs."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import ImportedNames, literal
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias

_ENVIRONMENTS = ("os.environ", "environ")
_SYSTEMS = ("get_ipython().system", "get_ipython().getoutput")
_LIBRARIES_THAT_SET = ("dotenv", "google.colab.userdata")


class EnvironmentChange(NamedTuple):
    """A variable gets a value, None if that is not known; without a name, any may get one."""

    line: int
    name: str | None
    value: str | None
    is_default: bool = False  # only if it has none
    is_removed: bool = False


class FolderChange(NamedTuple):
    """The process goes to a folder, None if it is not known which."""

    line: int
    folder: str | None


class FileWrite(NamedTuple):
    """A dict becomes a file of JSON, or a ``text`` a file; it stands in these lines."""

    line: int
    name: str
    value_line: int
    value_end_line: int
    text: str | None = None


class ProgramStart(NamedTuple):
    """The shell gets a command."""

    line: int
    command: str


Step: TypeAlias = "EnvironmentChange | FolderChange | FileWrite | ProgramStart"


class PythonSteps:
    """The steps of a module in the order of its lines."""

    def __init__(self, names: ModuleNames | None, found: list[Step]) -> None:
        self.names = names
        self.steps = found

    def has(self, name: str) -> bool:
        """Whether the module gives a value to a name."""
        return self.names is not None and bool(self.names.assignments(name, self.names.module))

    def constant(self, name: str, line: int) -> str | None:
        """The number or text that a name of the module stands for at a line."""
        names = self.names
        found = names.assignments(name, names.module) if names is not None and name.isidentifier() else []
        if names is None or any(one.value is None or one.place != names.places[names.module] for one in found):
            return None
        before = [one.value for one in found if one.value is not None and one.value.lineno < line]
        value = literal(before[-1]) if before else None
        return str(value) if isinstance(value, (str, int, float)) else None


def steps(python: str) -> PythonSteps:
    """What the Python of a notebook does."""
    try:
        names = ModuleNames(parsed(python))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PythonSteps(None, [])
    reader = _StepReader(names)
    return PythonSteps(names, sorted(reader.found(), key=lambda step: step.line))


def environment_changes(names: ModuleNames) -> tuple[EnvironmentChange, ...]:
    """The variables of a module that it gives values to, by their names."""
    found = _StepReader(names).found()
    return tuple(step for step in found if isinstance(step, EnvironmentChange) and step.name is not None)


class _StepReader:
    def __init__(self, names: ModuleNames) -> None:
        self.names = names
        self.imported = ImportedNames(names)

    def found(self) -> Iterator[Step]:
        for node in self.names.every(ast.Subscript):
            if dotted_name(node.value) in _ENVIRONMENTS and not isinstance(node.ctx, ast.Load):
                yield self._item(node)
        for call in self.names.calls:
            yield from self._of_call(call)
        for statement in self.names.every(ast.AugAssign):
            if dotted_name(statement.target) in _ENVIRONMENTS:
                yield from self._all_of(statement.value, statement)

    def _of_call(self, call: ast.Call) -> Iterator[Step]:
        name = dotted_name(call.func)
        owner, _, method = name.rpartition(".")
        if owner in _ENVIRONMENTS:
            yield from self._method(call, method)
        elif name in ("os.chdir", "chdir"):
            yield FolderChange(call.lineno, self._text(call.args[0]) if call.args and self._runs(call) else None)
        elif name in ("json.dump", "dump") and len(call.args) > 1:
            yield from self._dumped(call)
        elif getattr(call.func, "attr", "") in ("write", "write_text") and len(call.args) == 1:
            yield from self._text_written(call)
        elif ast.unparse(call.func) in _SYSTEMS and call.args:
            command = self._text(call.args[0])
            if command is not None:
                yield ProgramStart(call.lineno, command)
        elif isinstance(self.names.parents.get(call), ast.Expr) and self._may_set(name):
            yield EnvironmentChange(call.lineno, None, None)

    def _may_set(self, name: str) -> bool:
        """Whether a function that is called for what it does is of a module of which that is not known."""
        if self.imported.is_unknown(name):
            return True
        return self.imported.full_name(name).startswith(_LIBRARIES_THAT_SET)

    def _item(self, node: ast.Subscript) -> EnvironmentChange:
        name = self._text(node.slice)
        parent = self.names.parents.get(node)
        if isinstance(parent, ast.Delete):
            return EnvironmentChange(node.lineno, name, None, is_removed=True)
        assigned = parent.value if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
        return EnvironmentChange(node.lineno, name, self._text(assigned) if self._runs(node) else None)

    def _method(self, call: ast.Call, method: str) -> Iterator[EnvironmentChange]:
        if method == "update":
            for given in call.args:
                yield from self._all_of(given, call)
            for one in call.keywords:
                yield EnvironmentChange(call.lineno, one.arg, self._text(one.value) if self._runs(call) else None)
        elif method in ("setdefault", "pop") and call.args:
            value = self._text(call.args[1]) if len(call.args) > 1 and self._runs(call) else None
            is_default = method == "setdefault"
            yield EnvironmentChange(
                call.lineno, self._text(call.args[0]), value, is_default=is_default, is_removed=not is_default
            )

    def _all_of(self, node: ast.expr, at: ast.expr | ast.stmt) -> Iterator[EnvironmentChange]:
        """The variables that a dict sets."""
        node = self._meant(node)
        if isinstance(node, ast.Call) and dotted_name(node.func) == "dict" and not node.args:
            pairs = [(one.arg, one.value) for one in node.keywords]
        elif isinstance(node, ast.Dict):
            pairs = [(self._text(key), value) for key, value in zip(node.keys, node.values, strict=True) if key]
            pairs += [(None, value) for key, value in zip(node.keys, node.values, strict=True) if key is None]
        else:
            pairs = [(None, node)]
        for name, value in pairs:
            yield EnvironmentChange(at.lineno, name, self._text(value) if self._runs(at) else None)

    def _dumped(self, call: ast.Call) -> Iterator[FileWrite]:
        """The file that ``json.dump(config, file)`` writes."""
        value, file = self._meant(call.args[0]), call.args[1]
        opened = file if isinstance(file, ast.Call) else self._opened(file, call)
        if opened is None or dotted_name(opened.func) != "open" or not opened.args:
            return
        name = self._text(opened.args[0])
        if name is not None and self._runs(call):
            yield FileWrite(call.lineno, name, value.lineno, value.end_lineno or value.lineno)

    def _text_written(self, call: ast.Call) -> Iterator[FileWrite]:
        """The file that ``file.write(text)`` or ``Path(...).write_text(text)`` writes."""
        assert isinstance(call.func, ast.Attribute)  # noqa: S101 - it has a name
        owner, value = call.func.value, self._meant(call.args[0])
        if call.func.attr == "write":
            opened: ast.expr | None = owner if isinstance(owner, ast.Call) else self._opened(owner, call)
        else:
            opened = self._meant(owner)
        if not isinstance(opened, ast.Call) or not opened.args or not self._runs(call):
            return
        name, text = self._text(opened.args[0]), literal(value)
        if name is None or dotted_name(opened.func) not in ("open", "Path", "pathlib.Path"):
            return
        if isinstance(value, ast.Call) and dotted_name(value.func) == "json.dumps" and value.args:
            dumped = self._meant(value.args[0])
            yield FileWrite(call.lineno, name, dumped.lineno, dumped.end_lineno or dumped.lineno)
        elif isinstance(text, str):
            end = value.end_lineno or value.lineno
            starts, ends = text.startswith("\n"), text.rstrip(" \t").endswith("\n")
            yield FileWrite(call.lineno, name, value.lineno + starts, end - (ends and end > value.lineno), text)

    def _opened(self, file: ast.expr, call: ast.AST) -> ast.Call | None:
        """The call that opens a file, of the ``with`` around a call."""
        around: ast.AST | None = call
        while around is not None:
            around = self.names.parents.get(around)
            for item in around.items if isinstance(around, ast.With) else ():
                if item.optional_vars is not None and dotted_name(item.optional_vars) == dotted_name(file):
                    return item.context_expr if isinstance(item.context_expr, ast.Call) else None
        return None

    def _meant(self, node: ast.expr) -> ast.expr:
        found = self.names.reaching(node.id, node) if isinstance(node, ast.Name) else None
        return found.value if found is not None and found.value is not None else node

    def _text(self, node: ast.expr | None) -> str | None:
        """A text that shows: a constant, also one in a variable, or ``str`` of a number."""
        if node is None:
            return None
        node = self._meant(node)
        if isinstance(node, ast.Call) and dotted_name(node.func) == "str" and len(node.args) == 1:
            number = literal(self._meant(node.args[0]))
            return str(number) if isinstance(number, (int, str)) else None
        value = literal(node)
        return value if isinstance(value, str) else None

    def _runs(self, node: ast.AST) -> bool:
        """Whether a node runs once if the notebook does: in no function, condition or loop."""
        while (around := self.names.parents.get(node)) is not None:
            if not isinstance(around, (ast.Module, ast.With, ast.expr, ast.keyword, ast.withitem, ast.Expr, ast.Assign,
                                       ast.AugAssign, ast.Delete, ast.AnnAssign)):  # fmt: skip
                return False
            node = around
        return True

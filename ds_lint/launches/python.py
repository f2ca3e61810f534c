"""The launches of a Python module: ``subprocess.run([...])`` and its like, ``os.system``, with the words that show."""

from __future__ import annotations

import ast
import re
import shlex
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.scripts import Launches, joined, launches_in
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed
from ds_lint.source.shell.unknowns import StandIns

if TYPE_CHECKING:
    from collections.abc import Callable

_MODULES = ("subprocess", "sp", "os", "asyncio")
_FUNCTIONS = frozenset({
    "run", "call", "check_call", "check_output", "Popen", "getoutput", "getstatusoutput", "system", "popen",
    "create_subprocess_shell",
})  # fmt: skip
# Of ``os``, with the program before the list of its words, which begins with the program again.
_WITH_PROGRAM = ("execv", "execve", "execvp", "execvpe")
_ITSELF = ("__file__", "sys.argv[0]")
_WHOLE = ("Path", "os.path.abspath", "os.path.realpath", "pathlib.Path", "str")  # of a path: the same file
_DEEPEST = 20
_PERCENT = re.compile(r"%(?:\(\w+\))?[-+ #0]*\d*(?:\.\d+)?[sdifrgex]")
_BRACES = re.compile(r"\{[^{}]*\}")


class StartedCommand(NamedTuple):
    """A command of a module as a text for the shell, the line of its words, and what stands in it for values."""

    line: int
    script: str
    stand_ins: StandIns


def launches(text: str, path: str, read: Callable[[str], str | None]) -> Launches:
    """The launches of the calls that start a program."""
    return joined(
        [
            launches_in(command.script, path, read, stand_ins=command.stand_ins).moved(command.line - 1, path)
            for command in commands(text, path)
        ]
    )


def commands(text: str, path: str) -> list[StartedCommand]:
    """What the calls give to a shell that start a program."""
    if not any(module in text for module in ("subprocess", "os.system", "os.popen", "os.exec")):
        return []
    try:
        names = ModuleNames(parsed(text))
        found = [_of_call(call, names, path) for call in names.calls if _starts_a_program(call)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [one for one in found if one is not None]


def _starts_a_program(call: ast.Call) -> bool:
    module, _, function = dotted_name(call.func).rpartition(".")
    if function in _WITH_PROGRAM:
        return module == "os" and len(call.args) > 1
    return function in _FUNCTIONS and module.rpartition(".")[2] in ("", *_MODULES) and bool(call.args)


def _of_call(call: ast.Call, names: ModuleNames, path: str) -> StartedCommand | None:
    command = _Command(names, call, path)
    given = call.args[1 if dotted_name(call.func).rpartition(".")[2] in _WITH_PROGRAM else 0]
    words = command.words(given)
    script = command.text(given) if words is None else " ".join(words)
    return None if script is None else StartedCommand(given.lineno, script, command.stand_ins)


class _Command:
    """A command as a text for the shell, with stand-ins for what is computed, named by the code for it."""

    def __init__(self, names: ModuleNames, call: ast.Call, path: str) -> None:
        self.names = names
        self.call = call
        self.path = path  # of the module itself
        self.stand_ins = StandIns()
        self.depth = 0

    def words(self, node: ast.expr) -> list[str] | None:
        """The words of a list, quoted for the shell; None if the expression does not show one."""
        self.depth += 1
        if self.depth > _DEEPEST:
            return None
        try:
            return self._words(node)
        finally:
            self.depth -= 1

    def _words(self, node: ast.expr) -> list[str] | None:
        if isinstance(node, (ast.List, ast.Tuple)):
            return [word for element in node.elts for word in self._element(element)]
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.words(node.left), self.words(node.right)
            if left is None and right is None:
                return None
            return [*(left or [self._unknown(node.left)]), *(right or [self._unknown(node.right)])]
        if isinstance(node, ast.Call) and dotted_name(node.func) == "shlex.split" and node.args:
            text = self.text(node.args[0])
            return None if text is None else [text]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            text = None if node.args else self.text(node.func.value)
            return None if text is None else [text]
        name = dotted_name(node)
        return self._named(name, node) if name else None

    def _named(self, name: str, at: ast.expr) -> list[str] | None:
        """The words of a list in a variable, with those that statements after its assignment add."""
        base = [one for one in self.names.assignments(name, at) if one.value is not None]
        words = self.words(base[0].value) if len(base) == 1 and base[0].value is not None else None
        if words is None or base[0].value is None:
            return None
        first, block = base[0].value.lineno, self.names.places[self.call].block
        for statement, place in list(self.names.places.items()):
            added = _added(statement, name)
            if added is None or not first < added.lineno <= at.lineno or place.scope is not base[0].place.scope:
                continue
            more = self.words(added) if place.block in (block, base[0].place.block) else None
            words += [self._unknown(added)] if more is None else more
        return words

    def _element(self, node: ast.expr) -> list[str]:
        if isinstance(node, ast.Starred):
            words = self.words(node.value)
            return [self._unknown(node.value)] if words is None else words
        text = self.text(node)
        if text is None:
            return [self._unknown(node)]
        return [shlex.quote(text)]

    def text(self, node: ast.expr) -> str | None:
        """A string, with stand-ins for what an f-string puts into it; None if it is none that shows."""
        if isinstance(node, ast.Constant):
            return str(node.value) if isinstance(node.value, (str, int, float)) else None
        if isinstance(node, ast.JoinedStr):
            return "".join(self.text(part) or self._unknown(part) for part in node.values)
        if isinstance(node, ast.FormattedValue):
            return self.text(node.value)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.text(node.left), self.text(node.right)
            if left is None and right is None:
                return None
            return (left or self._unknown(node.left)) + (right or self._unknown(node.right))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return self._formatted(node.left, _PERCENT)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            return self._formatted(node.func.value, _BRACES)
        if dotted_name(node) == "sys.executable":
            return "python"
        if isinstance(node, (ast.Name, ast.Subscript)) and ast.unparse(node) in _ITSELF:
            return self.path
        if isinstance(node, ast.Call) and dotted_name(node.func) in _WHOLE and len(node.args) == 1:
            return self.text(node.args[0])
        name = dotted_name(node)
        found = self.names.assignments(name, node) if name else []
        if len(found) != 1 or found[0].value is None or self.depth > _DEEPEST:
            return None
        self.depth += 1
        text = self.text(found[0].value)
        self.depth -= 1
        return text

    def _formatted(self, form: ast.expr, place: re.Pattern[str]) -> str | None:
        """A text with stand-ins at the places that get a value."""
        text = self.text(form)
        return None if text is None else place.sub(lambda found: self.stand_ins.add(found[0].strip("{}")), text)

    def _unknown(self, node: ast.expr) -> str:
        return self.stand_ins.add(ast.unparse(node.value if isinstance(node, ast.FormattedValue) else node))


def _added(statement: ast.AST, name: str) -> ast.expr | None:
    """What a statement adds to the list of this name."""
    if (
        isinstance(statement, ast.AugAssign)
        and isinstance(statement.op, ast.Add)
        and dotted_name(statement.target) == name
    ):
        return statement.value
    if isinstance(statement, ast.Call) and isinstance(statement.func, ast.Attribute) and len(statement.args) == 1:
        if statement.func.attr == "extend" and dotted_name(statement.func.value) == name:
            return statement.args[0]
        if statement.func.attr == "append" and dotted_name(statement.func.value) == name:
            element = statement.args[0]
            return ast.copy_location(ast.List([element], ast.Load()), element)
    return None

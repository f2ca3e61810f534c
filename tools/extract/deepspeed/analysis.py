"""One release while it is analysed, and the frames in which its functions run."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.extract.deepspeed.classes import Classes
from tools.extract.deepspeed.modules import PACKAGE, ImportedModule, ImportedName, Sources
from tools.extract.deepspeed.records import Records
from tools.extract.deepspeed.values import UNKNOWN, Class, Constant, External, Function, Package, either

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tools.extract.deepspeed.modules import Definition, Module
    from tools.extract.deepspeed.values import Arguments, FunctionNode, Names, Value


_FILLED_AT_RUN_TIME = "deepspeed.ops.op_builder"  # the names of the modules that are built, there and below


@dataclass
class History:
    """The calls that are under way, and what the finished ones returned."""

    stack: list[FunctionNode] = field(default_factory=list)
    returned: dict[Any, Value] = field(default_factory=dict)


class Interpreter(NamedTuple):
    """What runs the source: expressions hold calls, calls run functions, and those have expressions again."""

    evaluate: Callable[[Frame, ast.expr], Value]
    run: Callable[[Frame, list[ast.stmt]], bool]
    call: Callable[[Frame, Value, Arguments], Value]


class Analysis:
    """One release while it is analysed: its modules, and everything that was found so far."""

    def __init__(self, tree: Path, interpreter: Interpreter) -> None:
        self.interpreter = interpreter
        self.sources = Sources(tree)
        self.records = Records()
        self.classes = Classes(self.evaluate)
        self.history = History()
        self._names: dict[tuple[Module, str], Value | None] = {}

    def evaluate(self, module: Module, node: ast.expr, names: Names | None = None) -> Value:
        """The value of an expression that is in a module or in the body of a class."""
        return self.interpreter.evaluate(Frame(self, module, dict(names or {})), node)

    def value_of(self, module: Module, name: str) -> Value | None:
        """What a name means in a module; None if it means nothing there."""
        place = (module, name)
        if place not in self._names:
            self._names[place] = None  # a name that is defined by itself, which stays unknown
            self._names[place] = self._found(module, name)
        return self._names[place]

    def _found(self, module: Module, name: str) -> Value | None:
        if name in module.names:
            return self.resolve(module, module.names[name])
        for starred in reversed(module.starred):
            source = self.sources.module(starred)
            if source is None and _is_own(starred):
                raise LookupError(f"{starred}, from which {module.name} imports all names, is not found")
            value = self.value_of(source, name) if source else None
            if value is not None:
                return value
        return None

    def resolve(self, module: Module, definition: Definition) -> Value:
        """The value that a definition in a module gives to its name."""
        match definition:
            case ImportedModule(name):
                return Package(name) if self.sources.module(name) else External(name)
            case ImportedName(source, name):
                self._verify_import(source, name)
                return self.member_of(source, name)
            case ast.ClassDef():
                return Class(module, definition)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return Function(module, definition)
            case _:
                return self.evaluate(module, definition)

    def member_of(self, module_name: str, name: str) -> Value:
        """``module.name``, also of another library."""
        module = self.sources.module(module_name)
        if module is None:
            return External(f"{module_name}.{name}")
        value = self.value_of(module, name)
        if value is None and self.sources.module(f"{module_name}.{name}"):
            return Package(f"{module_name}.{name}")
        return UNKNOWN if value is None else value

    def _verify_import(self, module_name: str, name: str) -> None:
        """What is imported from the package is there, or what the config does beyond it would stay unknown."""
        if not _is_own(module_name) or module_name.startswith(_FILLED_AT_RUN_TIME):
            return
        module = self.sources.module(module_name)
        if module is None:
            raise LookupError(f"{module_name}, from which {name} is imported, is not found")
        is_there = self.value_of(module, name) is not None or self.sources.module(f"{module_name}.{name}")
        if not is_there and all(map(self.sources.module, module.starred)):
            raise LookupError(f"{name}, which is imported from {module_name}, is not found")

    def run(self, function: Function, names: Names) -> Value:
        """The value that a function returns when its parameters are bound to these names."""
        frame = Frame(self, function.module, names, function.owner)
        if isinstance(function.node, ast.Lambda):
            return self.interpreter.evaluate(frame, function.node.body)
        self.interpreter.run(frame, function.node.body)
        return either(*frame.returned) if frame.returned else Constant(None)


def _is_own(module_name: str) -> bool:
    return module_name.partition(".")[0] == PACKAGE


@dataclass(eq=False, slots=True)
class Frame:
    """The run of one body. ``owner`` is the class whose method it is, which ``super()`` asks for."""

    analysis: Analysis
    module: Module
    names: Names
    owner: Class | None = None
    returned: list[Value] = field(default_factory=list)
    unrolled: set[str] = field(default_factory=set)  # loop variables that stand for one constant at a time

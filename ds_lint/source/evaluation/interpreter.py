"""Runs a module in the mind: its statements in their order, with values that show and values that do not.

Nothing is imported and nothing happens outside. A branch that may be taken or not is run, undone and joined with the
others. A function that nothing calls is run last, with arguments that do not show. Steps are counted.

Statements, expressions and calls have modules of their own, whose functions take the run. Each imports only what stands
below it; what they need from above is in ``Evaluator``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation import attributes, branches, calls, comparisons, containers, expressions, statements
from ds_lint.source.evaluation.branches import fork
from ds_lint.source.evaluation.calls import arguments_of
from ds_lint.source.evaluation.escapes import generic_object, unknown_arguments
from ds_lint.source.evaluation.frames import ENDED, NEXT, CallFrame
from ds_lint.source.evaluation.functions import run_function
from ds_lint.source.evaluation.loops import MOST_PASSES
from ds_lint.source.evaluation.relevance import Relevance
from ds_lint.source.evaluation.state import Branch, Heap
from ds_lint.source.evaluation.values import (
    Arguments,
    Environment,
    Exhausted,
    Known,
    LibraryName,
    ModuleError,
    NotKnown,
    Slot,
    Table,
    Undecided,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.frames import RunningTry
    from ds_lint.source.evaluation.values import Class, Dict, ModuleFunction, Object, Value

_MOST_STEPS = 30_000
_MOST_OF_ONE = 8_000  # for a function that nothing calls


class Interpreter:
    """The evaluation of one module. ``watch`` is given each call whose function is not the module's own."""

    def __init__(self, module: ast.Module, reading: frozenset[ast.Call]) -> None:
        self.state = Heap()
        self.reading = reading  # calls that leave their arguments as they are
        self.watch: Callable[[ast.Call, Arguments], None] | None = None
        self.made: dict[ast.AST, list[Dict]] = {}  # the dicts that a text has made
        self.globals = Environment(self.state.new_dict(module), None, None)
        self.relevance = Relevance(module)
        self.is_complete = False
        self._module = module
        self._is_apart = False
        self._left = _MOST_STEPS
        self._uncalled: set[ast.AST] = set()

        self.frame = CallFrame(self.globals, 0, 0)
        self.stack: list[ast.AST] = []  # the functions that have been called
        self.forks: list[int] = []  # how many cells there were before each undecided branch around
        self.tries: list[RunningTry] = []
        self.depth = 0  # of expressions in each other
        self.repeating = 0  # loops of known items around

        self.functions: dict[ast.AST, ModuleFunction] = {}
        self.generic: dict[Class, Object] = {}  # an object of each class, whoever makes it
        self.entered: set[ast.AST] = set()  # functions that something calls
        self.awaited: set[ast.AST | None] = set()
        self.escaping: set[ModuleFunction] = set()  # functions that code has got which does not show
        self.patched: set[str] = set()  # names of libraries that the module sets
        self.has_star = False  # an import of all names

    # What the parts need of each other.

    block = statements.block
    evaluate = expressions.evaluate
    call = calls.call
    perhaps = branches.perhaps
    truth = comparisons.truth
    equal = comparisons.equal
    items = containers.items
    item = containers.item
    set_item = containers.set_item
    attribute = attributes.attribute
    set_attribute = attributes.set_attribute

    def step(self) -> None:
        """Count a step, of which there are so many."""
        self._left -= 1
        if self._left < 0:
            raise Exhausted

    def risk(self) -> None:
        """Note that something may raise that does not show."""
        if self.tries:
            self.tries[-1].risks += 1

    # The module.

    def run(self) -> None:
        """Run the module, and then what nothing in it calls."""
        variables = self.globals.variables
        for name, value in (("__name__", "__main__"), ("__debug__", True)):
            self.state.put(variables, name, Slot(Known(value, self._module), self._module, is_fixed=True))
        try:
            self.block(self._module.body)
        except ModuleError:
            pass  # it ends here
        except (Exhausted, RecursionError):
            return
        try:
            self._run_the_rest()
        except (Exhausted, RecursionError):
            return
        self.is_complete = True

    def apart(self, node: ast.expr, function: ast.AST | None) -> Value:
        """The value of an expression that has not been run; the variables of a function do not show."""
        mark = self._begin_apart(node, function)
        try:
            return self.evaluate(node)
        except (Exhausted, ModuleError, RecursionError):
            self.state.undo(mark)
            return Undecided(node)

    def arguments_apart(self, call: ast.Call, function: ast.AST | None) -> Arguments:
        """The arguments of a call that has not been run."""
        mark = self._begin_apart(call, function)
        try:
            return arguments_of(self, call)
        except (Exhausted, NotKnown, ModuleError, RecursionError):
            self.state.undo(mark)
            return Arguments([], {}, is_open=True)

    def _begin_apart(self, node: ast.expr, function: ast.AST | None) -> int:
        environment = self.globals
        if function is not None:
            environment = Environment(self.state.new_dict(node, is_open=True), None, None)
            environment.variables.is_lost = True
        self.frame, self.stack, self.tries, self.forks = CallFrame(environment, 0, 0), [], [], []
        self.depth, self._left, self.watch = 0, _MOST_OF_ONE, None
        mark = len(self.state.trail)
        if not self.is_complete and not self._is_apart:
            self.globals.variables.content = Table(self._settled_names(), is_open=True)
        self._is_apart = True
        return mark

    def _settled_names(self) -> dict[Any, Slot]:
        """The numbers and texts of the module that are assigned once, in whatever it has not come to."""
        times: dict[str, int] = {}
        for node in ast.walk(self._module):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                times[node.id] = times.get(node.id, 0) + 1
            elif isinstance(node, ast.Global):
                times |= dict.fromkeys(node.names, 2)
        entries = self.globals.variables.content.entries
        return {
            name: slot
            for name, slot in entries.items()
            if isinstance(slot.value, (Known, LibraryName)) and not slot.may_be_missing and times.get(str(name), 1) == 1
        }

    def _run_the_rest(self) -> None:
        for _ in range(MOST_PASSES + 1):
            changed = False
            for node, function in [*self.functions.items()]:
                if isinstance(node, ast.Lambda) or not self.relevance.may_matter(node):
                    continue
                if node not in self.entered or node in self._uncalled:
                    changed |= node not in self._uncalled
                    self._uncalled.add(node)
                    changed |= self._enter(function)
            if not changed:
                break

    def _enter(self, function: ModuleFunction) -> bool:
        """Run a function whose callers do not show, once or never; whether that has changed anything."""
        receiver = None
        if function.owner is not None and not _is_static(function):
            receiver = generic_object(self, function.owner)
        left, most = self._left, min(self._left, _MOST_OF_ONE)
        self._left = most
        mark, frame, forks = len(self.state.trail), self.frame, len(self.forks)

        def call() -> str:
            run_function(self, function, unknown_arguments(function, receiver), function.node, is_entry=True)
            return NEXT

        try:
            completion, branch = fork(self, call)
        except Exhausted:
            if left <= most:
                raise
            self.state.undo(mark)
            self.frame, self.stack, self.tries, self.depth, self.repeating = frame, [], [], 0, 0
            del self.forks[forks:]
            completion = ENDED
        self._left = left - (most - max(self._left, 0))
        return self.state.merge([Branch({}, range(0)), branch]) if completion == NEXT else False


def _is_static(function: ModuleFunction) -> bool:
    node = function.node
    return not isinstance(node, ast.Lambda) and any(
        isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list
    )

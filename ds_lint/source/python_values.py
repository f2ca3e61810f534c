"""What the expressions of a Python module are, as nodes: dicts, lists and scalars that show without running it.

The module is evaluated once for all that is asked of it (``evaluation/``). What depends on what is not in the module is
a node of the kind ``template``, as is a key that may or may not get another value.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.record import Record
from ds_lint.source.evaluation.interpreter import Interpreter
from ds_lint.source.evaluation.nodes import Freezer, Snapshot, joined
from ds_lint.source.evaluation.relevance import summary
from ds_lint.source.python_names import dotted_name
from ds_lint.source.python_offsets import Offsets
from ds_lint.source.tree import Node, Span

if TYPE_CHECKING:
    from collections.abc import Iterable
    from dataclasses import KW_ONLY

    from ds_lint.source.evaluation.values import Arguments, Value
    from ds_lint.source.python_names import ModuleNames

_MOST_NODES = 50_000  # of one module: dicts that are in each other grow without bounds
_MOST_SEEN = 20  # values of one expression


class PythonValue(Record):
    """A node, whether it may have further keys that nothing is known of, and the texts that nothing can replace."""

    node: Node
    _: KW_ONLY
    is_open: bool = False
    fixed: tuple[Span, ...] = ()


class Values:
    """Evaluates the expressions of a module. Nothing of the module is run."""

    def __init__(self, names: ModuleNames, text: str) -> None:
        self._names = names
        self._offsets = Offsets(text)
        self._freezer = Freezer(self._offsets, text, _MOST_NODES)
        self._run: Interpreter | None = None
        self._users: frozenset[ast.Call] = frozenset()
        self._seen: dict[ast.expr, list[Snapshot]] = {}
        self._keywords: dict[ast.Call, list[Snapshot]] = {}
        self.dicts: set[ast.AST] = set()  # that have been part of a value

    def span(self, expression: ast.expr) -> Span:
        """Where an expression is in the text."""
        return self._offsets.span(expression)

    def value(self, expression: ast.expr, users: Iterable[ast.Call] = ()) -> PythonValue:
        """The value of an argument of a call; ``users`` are calls that read a config and leave it as it is."""
        found = self.every(expression, users)
        return found[0] if len(found) == 1 else self._unknown(expression)

    def every(self, expression: ast.expr, users: Iterable[ast.Call] = ()) -> list[PythonValue]:
        """The values that an argument of a call has, if they are written in several places."""
        self._evaluate(frozenset(users))
        seen = self._seen.get(expression)
        if seen is None:
            seen = [self._apart(expression)]
        return self._summary(seen)

    def settled(self, dictionary: ast.expr) -> PythonValue:
        """The value of a dict that is written out, with all that happens to it."""
        run = self._evaluate(None)
        cells = run.made.get(dictionary, []) if run.is_complete else []
        if not run.is_complete and self._may_change(dictionary):
            return self._unknown(dictionary)
        seen = [self._freezer.frozen(cell, dictionary) for cell in cells[:_MOST_SEEN]]
        return self._summary(seen or [self._apart(dictionary)])[0]

    def _may_change(self, dictionary: ast.expr) -> bool:
        """Whether something is done to the variable that a dict is assigned to."""
        statement = self._names.parents.get(dictionary)
        target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
        name = dotted_name(target).rpartition(".")[2] if target is not None else ""
        return bool(name) and name in summary(self._names.module, [self._names.module], "all").written

    def keywords(self, call: ast.Call) -> PythonValue:
        """The keywords of a call as an object, which is at the name that is called; also those behind ``**``."""
        run = self._evaluate(None)
        seen = self._keywords.get(call)
        if seen is None:
            arguments = run.arguments_apart(call, self._function_around(call))
            seen = [self._freezer.keywords(arguments.keywords, call.func, is_open=arguments.is_open)]
        return self._summary(seen)[0]

    def _evaluate(self, users: frozenset[ast.Call] | None) -> Interpreter:
        """The run of the module; without users, one of any."""
        if self._run is None or (users is not None and not users <= self._users):
            self._users = users or frozenset()
            self._seen.clear()
            self._keywords.clear()
            self._run = Interpreter(self._names.module, self._users)
            self._run.watch = self._watch
            self._run.run()
        return self._run

    def _watch(self, call: ast.Call, arguments: Arguments) -> None:
        """Note what a call gets, as it is at that moment."""
        seen = self._keywords.setdefault(call, [])
        if len(seen) >= _MOST_SEEN:
            return
        seen.append(self._freezer.keywords(arguments.keywords, call.func, is_open=arguments.is_open))
        for keyword in call.keywords:
            if keyword.arg is not None and keyword.arg in arguments.keywords:
                slot = arguments.keywords[keyword.arg]
                self._seen.setdefault(keyword.value, []).append(self._freezer.frozen(slot.value, keyword.value))
        if not any(isinstance(one, ast.Starred) for one in call.args):
            for argument, slot in zip(call.args, arguments.positional, strict=False):
                self._seen.setdefault(argument, []).append(self._freezer.frozen(slot.value, argument))

    def _apart(self, expression: ast.expr) -> Snapshot:
        """The value of an expression that is not run, or not as an argument."""
        run = self._evaluate(None)
        value: Value = run.apart(expression, self._function_around(expression))
        return self._freezer.frozen(value, expression)

    def _function_around(self, node: ast.AST) -> ast.AST | None:
        scope = self._names.places[node].scope
        return None if isinstance(scope, ast.Module) else scope

    def _summary(self, seen: list[Snapshot]) -> list[PythonValue]:
        """Values that an expression has had, those in the same place as one."""
        places: dict[int, list[Snapshot]] = {}
        for one in seen:
            places.setdefault(one.node.span.start, []).append(one)
            self.dicts.update(parent for place in one.places if (parent := self._names.parents.get(place)) is not None)
        return [
            PythonValue(
                joined([one.node for one in those]),
                is_open=any(one.is_open for one in those),
                fixed=tuple(dict.fromkeys(span for one in those for span in one.fixed)),
            )
            for those in places.values()
        ]

    def _unknown(self, expression: ast.expr) -> PythonValue:
        return PythonValue(Node("template", self.span(expression), ast.unparse(expression)), is_open=True)

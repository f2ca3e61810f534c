"""Where a script generates with the model of the engine, and whether the ranks may generate different texts.

At stage 3 each token gathers the weights from all ranks. ``synced_gpus`` lets a rank that has its text go on until all
have theirs: ``GenerationMixin.generate`` in transformers/generation/utils.py.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, keyword, last_name, literal, place, written
from ds_lint.launches.trained_names import is_rank
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_loading import LoadReader
    from ds_lint.launches.trained_names import TrainedNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SPLITS = ("DistributedSampler", "split_between_processes", "split_dataset_by_node")
_DEVICES = ("cuda", "device", "set_device", "to")  # calls that take a rank for the number of a GPU
_MOST = 400  # expressions that lead to the input; a script with more of them is not followed


class Generation(NamedTuple):
    """A call of ``generate`` on every rank with inputs that differ by rank, without ``synced_gpus=True``.

    ``is_switched_off`` says that ``synced_gpus=False`` is written, and ``is_known`` whether transformers knows of
    stage 3; None if that does not show.
    """

    function: str
    place: CodePlace
    is_switched_off: bool
    is_known: bool | None


class GenerationReader:
    """The calls of ``generate`` of a module."""

    def __init__(self, trained: TrainedNames, loading: LoadReader) -> None:
        self.names = trained.names
        self.trained = trained
        self.loading = loading

    def generations(self) -> Iterator[Generation]:
        """The calls whose ranks may stop at different lengths and do not wait for each other."""
        for call in self.names.calls:
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "generate":
                continue
            if any(one.arg is None for one in call.keywords) or not self.trained.is_trained(call.func.value):
                continue
            given = keyword(call, "synced_gpus")
            is_off = isinstance(given, ast.Constant) and given.value is False
            if (given is None or is_off) and not self._is_of_one_length(call) and self._differs_by_rank(call):
                if self.trained.is_gathered(call) or self.trained.condition_of_one_rank(call) is not None:
                    continue
                yield Generation(written(call.func), place(call.func), is_off, self.loading.tells_before(call))

    @staticmethod
    def _is_of_one_length(call: ast.Call) -> bool:
        """Whether every text gets the same number of tokens."""
        least, most = literal(keyword(call, "min_new_tokens")), literal(keyword(call, "max_new_tokens"))
        return most is not None and most in (least, 1)

    # -------------------------------------------------------------------------------------------------------- inputs

    def _differs_by_rank(self, call: ast.Call) -> bool:
        """Whether what a call takes is chosen by the rank."""
        waiting: list[ast.AST] = [*call.args, *(one.value for one in call.keywords)]
        seen: set[ast.AST] = set()
        while waiting and len(seen) < _MOST:
            node = waiting.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, ast.expr) and is_rank(node):
                return True
            if isinstance(node, ast.Call) and last_name(node) in _SPLITS:
                return True
            if isinstance(node, (ast.Name, ast.Attribute)) and (name := dotted_name(node)):
                for value in self._values(name, node):
                    if self._is_chosen_by_rank(value):
                        return True
                    waiting.append(value)
                if isinstance(node, ast.Attribute):
                    waiting.append(node.value)
            elif isinstance(node, ast.Call) and last_name(node) in _DEVICES:
                waiting.append(node.func)
            else:
                waiting.extend(ast.iter_child_nodes(node))
        return False

    def _is_chosen_by_rank(self, value: ast.AST) -> bool:
        """Whether a condition about the rank decides whether a name gets a value."""
        below, around = value, self.names.parents.get(value)
        while around is not None and not isinstance(around, (*_FUNCTIONS, ast.Lambda)):
            if isinstance(around, ast.If) and below is not around.test and _names_rank(around.test):
                return True
            below, around = around, self.names.parents.get(around)
        return False

    def _values(self, name: str, node: ast.expr) -> Iterator[ast.AST]:
        """What a name may get its value from: assignments, loops, contexts, and the calls of a function."""
        for assignment in self.names.assignments(name, node):
            if assignment.value is not None:
                yield assignment.value
                continue
            for loop in (*self.names.every(ast.For), *self.names.every(ast.comprehension)):
                if self._has(loop.target, name):
                    yield loop.iter
            for item in (item for one in self.names.every(ast.With) for item in one.items):
                if item.optional_vars is not None and self._has(item.optional_vars, name):
                    yield item.context_expr
            scope = assignment.place.scope
            order = [one.arg for one in scope.args.args] if isinstance(scope, _FUNCTIONS) else []
            if isinstance(scope, _FUNCTIONS) and name in order:
                for call in self.trained.calls_of(scope):
                    given = self.trained.argument(call, name, order.index(name))
                    if given is not None:
                        yield given

    @staticmethod
    def _has(target: ast.expr, name: str) -> bool:
        return any(dotted_name(one) == name for one in ast.walk(target) if isinstance(one, ast.expr))


def _names_rank(node: ast.expr) -> bool:
    return any(isinstance(one, ast.expr) and is_rank(one) for one in ast.walk(node))

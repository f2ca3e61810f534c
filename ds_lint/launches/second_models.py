"""A model that transformers builds in partitions, and that a script runs beside the one that it trains.

Only an engine gathers the weights for a forward pass. A frozen teacher, reference model or text encoder that nothing
gives to ``prepare``, ``deepspeed.initialize`` or a Trainer has weights without elements then.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, ImportedNames, last_name, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.model_loading import LoadReader
    from ds_lint.launches.trained_names import TrainedNames
    from ds_lint.source.python_names import ModuleNames

_RUNS = ("forward", "generate", "get_image_features", "get_text_features")  # methods that use the weights
_RETURN_ITSELF = ("bfloat16", "cuda", "eval", "float", "half", "requires_grad_", "to", "train")
_WITHOUT_GRADIENTS = ("torch.inference_mode", "torch.no_grad")
# Functions that look at a model, or return it as it is.
_LOOKS = frozenset(
    {"bool", "callable", "getattr", "hasattr", "id", "isinstance", "len", "print", "repr", "str", "sum", "type"}
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 4  # names and functions that a model is handed on to


class SecondModel(NamedTuple):
    """The load of a model, and the first call that runs it; ``is_certain`` says that no condition decides about it."""

    function: str
    place: CodePlace
    run: str
    run_place: CodePlace
    is_certain: bool


class _HandedOnError(Exception):
    """Something gets the model that may give it to an engine."""


class SecondModelReader:
    """The models of a module that are run, and not trained."""

    def __init__(self, trained: TrainedNames, imported: ImportedNames, loading: LoadReader) -> None:
        self.names: ModuleNames = trained.names
        self.trained = trained
        self.imported = imported
        self.loading = loading

    def read(self) -> list[SecondModel]:
        """All of them; none in a script that makes no engine."""
        if not self.trained.wraps:
            return []
        return [found for call in self.loading.calls if (found := self._of_load(call)) is not None]

    def _of_load(self, load: ast.Call) -> SecondModel | None:
        full = self.imported.full_name(dotted_name(load.func))
        statement = self._around(load)
        if not full.startswith("transformers.") or not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, (ast.Name, ast.Attribute)) or self.loading.tells_before(load) is not True:
            return None
        if not self._is_in_partitions(load, _DEPTH):
            return None
        try:
            runs = self._runs(target, _DEPTH)
        except _HandedOnError:
            return None
        runs = [one for one in runs if not self.trained.is_gathered(one)]
        if not runs:
            return None
        first = min(runs, key=lambda one: one.lineno)
        is_certain = not self._is_conditional(load) and not self._is_conditional(first)
        return SecondModel(dotted_name(load.func), place(load.func), written(first.func), place(first.func), is_certain)

    def _is_in_partitions(self, node: ast.AST, depth: int) -> bool:
        """Whether nothing around a load may keep transformers from it, such as ``zero.Init(enabled=False)``."""
        entered = (one.func if isinstance(one, ast.Call) else one for one in self.trained.contexts(node))
        if any(self.imported.full_name(dotted_name(one)) not in _WITHOUT_GRADIENTS for one in entered):
            return False
        function = self.names.places[node].scope
        calls = self.trained.calls_of(function) if depth and isinstance(function, _FUNCTIONS) else []
        return all(self._is_in_partitions(call, depth - 1) for call in calls)

    def _around(self, load: ast.Call) -> ast.AST | None:
        """What a load stands in, with what is called on it and returns the model: ``.eval()``."""
        around = self.names.parents.get(load)
        while isinstance(around, ast.Attribute) and around.attr in _RETURN_ITSELF:
            around = self.names.parents.get(self.names.parents[around])
        return around

    def _runs(self, target: ast.expr, depth: int) -> list[ast.Call]:
        """The calls that run what a name gets."""
        name = dotted_name(target)
        if not name or depth == 0 or len(self.names.assignments(name, target)) != 1:
            raise _HandedOnError
        uses = [one for one in self.names.uses.get(name, ()) if self.names.means_the_same(name, one, target)]
        if isinstance(target, ast.Attribute):  # of whatever object: it is the same one in another method
            ending = f".{target.attr}"
            uses += [one for other, found in self.names.uses.items() if other.endswith(ending) for one in found]
        return [run for use in dict.fromkeys(uses) for run in self._of_use(use, depth)]

    def _of_use(self, use: ast.expr, depth: int) -> list[ast.Call]:
        around = self.names.parents[use]
        if isinstance(around, ast.Attribute):
            called = self.names.parents[around]
            is_run = isinstance(called, ast.Call) and called.func is around and around.attr in _RUNS
            return [called] if is_run and isinstance(called, ast.Call) else []
        if isinstance(around, (ast.Compare, ast.UnaryOp, ast.Expr)):
            return []
        if isinstance(around, ast.Call) and around.func is use:
            return [around]
        if isinstance(around, ast.Assign) and len(around.targets) == 1:
            return self._runs(around.targets[0], depth - 1)
        call = self.names.parents[around] if isinstance(around, ast.keyword) else around
        if isinstance(call, ast.Call):
            return self._of_argument(call, use, depth)
        raise _HandedOnError

    def _of_argument(self, call: ast.Call, use: ast.expr, depth: int) -> list[ast.Call]:
        """The calls that run a model which a function gets; those of the module are followed."""
        if last_name(call) in _LOOKS:
            return []
        functions = self.names.functions.get(dotted_name(call.func), [])
        if len(functions) != 1:
            raise _HandedOnError
        parameters = functions[0].args
        positions = [one.arg for one in (*parameters.posonlyargs, *parameters.args)]
        names = [*positions, *(one.arg for one in parameters.kwonlyargs)]
        given = [one for index, one in enumerate(names) if self.trained.argument(call, one, index) is use]
        return [run for name in given for run in self._of_parameter(functions[0], name, depth - 1)]

    def _of_parameter(self, function: ast.FunctionDef | ast.AsyncFunctionDef, name: str, depth: int) -> list[ast.Call]:
        found = [one for one in self.names.uses.get(name, ()) if self.names.places[one].scope is function]
        if depth == 0 or len(self.names.assignments(name, function.body[0])) != 1:
            raise _HandedOnError
        return [run for use in found for run in self._of_use(use, depth)]

    def _is_conditional(self, node: ast.AST) -> bool:
        """Whether something decides in its function whether a node runs."""
        while not isinstance(around := self.names.parents.get(node), (*_FUNCTIONS, ast.Lambda, type(None))):
            is_main = isinstance(around, ast.If) and "__name__" in ast.unparse(around.test)
            if isinstance(around, (ast.If, ast.IfExp, ast.Try, ast.BoolOp, ast.Match)) and not is_main:
                return True
            node = around
        return False

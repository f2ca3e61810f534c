"""Whether a script with a Trainer trains, or only evaluates or predicts: at all, or unless ``do_train`` is set."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, ImportedNames, last_name, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.trained_names import TrainedNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TRAINERS = re.compile(r"\w*Trainer")
_METHODS = ("evaluate", "predict")
_TRAINS = ("backward", "fit", "hyperparameter_search", "learn", "step", "train")
_MAY_TRAIN = re.compile(r"\w*(?:(?<!pre)train|fit|learn|tune)(?!_?arg|er|ing_arg|_dataset)\w*", re.IGNORECASE)
_FLAGS = ("do_eval", "do_predict", "do_train")
_DEPTH = 4


class EvaluateCall(NamedTuple):
    """A call of ``evaluate`` or ``predict`` of a Trainer.

    ``flag`` is the training argument that has to be set for it, "" if none has to.
    """

    method: str
    function: str
    place: CodePlace
    flag: str


class Evaluations(NamedTuple):
    """``trains`` is False if nothing trains, None if nothing does unless ``do_train`` is set, and True if it may."""

    trains: bool | None
    calls: tuple[EvaluateCall, ...]


class EvaluationReader:
    """The evaluations of a module."""

    def __init__(self, trained: TrainedNames, imported: ImportedNames) -> None:
        self.names = trained.names
        self.trained = trained
        self.imported = imported

    def read(self) -> Evaluations | None:
        """What the module does with its Trainer; None if it has none."""
        if not any(_TRAINERS.fullmatch(last_name(call)) for call in self.names.calls):
            return None
        training = [call for call in self.names.calls if self._may_train(call)]
        guarded = [self._conditions(call) for call in training]
        trains = any(one is None or ("do_train", True) not in one for one in guarded)
        return Evaluations(True if trains else None if training else False, tuple(self._evaluations()))

    def _evaluations(self) -> Iterator[EvaluateCall]:
        for call in self.names.calls:
            conditions = self._conditions(call) if self._is_of_trainer(call) else None
            if conditions is None or ("", True) in conditions or ("do_train", True) in conditions:
                continue
            wanted = [flag for flag, holds in conditions if holds]
            if len(wanted) < 2 and all(holds or flag == "do_train" for flag, holds in conditions):
                yield EvaluateCall(last_name(call), written(call.func), place(call.func), "".join(wanted))

    def _is_of_trainer(self, call: ast.Call) -> bool:
        if not isinstance(call.func, ast.Attribute) or call.func.attr not in _METHODS:
            return False
        made = self.trained.meant(call.func.value)
        is_made = isinstance(made, ast.Call) and _TRAINERS.fullmatch(last_name(made)) is not None
        return is_made or dotted_name(call.func.value).rpartition(".")[2] == "trainer"

    def _may_train(self, call: ast.Call) -> bool:
        """Whether a call trains, or does what is not known with a Trainer."""
        name, last = dotted_name(call.func), last_name(call)
        if isinstance(call.func, ast.Attribute) and last in _TRAINS:
            return True
        if not self.imported.is_unknown(name):
            return False
        given = (*call.args, *(one.value for one in call.keywords))
        takes_trainer = any(dotted_name(one).rpartition(".")[2].lower().endswith("trainer") for one in given)
        return takes_trainer or _MAY_TRAIN.fullmatch(last) is not None

    # ---------------------------------------------------------------------------------------------------- conditions

    def _conditions(self, node: ast.AST, depth: int = _DEPTH) -> list[tuple[str, bool]] | None:
        """The training arguments that have to be set, or not, for a node to run, "" for any other condition.

        None if that does not show: it runs in a function that something else may call.
        """
        found: list[tuple[str, bool]] = []
        below, around = node, self.names.parents.get(node)
        while around is not None and not isinstance(around, (*_FUNCTIONS, ast.Lambda)):
            if isinstance(around, ast.If) and below is not around.test:
                found += self._of_test(around.test, is_true=below in around.body)
            elif isinstance(around, (ast.IfExp, ast.ExceptHandler, ast.match_case, ast.BoolOp, ast.While)):
                found.append(("", True))
            below, around = around, self.names.parents.get(around)
        if not isinstance(around, _FUNCTIONS):
            return found if around is None else None
        calls = self.trained.calls_of(around)
        if not calls:  # what a command line runs, such as ``fire.Fire(main)``
            is_used = bool(self.names.uses.get(around.name)) and not self.names.calls_by_name.get(around.name)
            return found if is_used else None
        outer = [self._conditions(call, depth - 1) for call in calls] if depth else [None]
        return None if None in outer or len(outer) != 1 else [*found, *(outer[0] or ())]

    def _of_test(self, test: ast.expr, *, is_true: bool) -> Iterator[tuple[str, bool]]:
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and is_true:
            for one in test.values:
                yield from self._of_test(one, is_true=True)
        elif isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            yield from self._of_test(test.operand, is_true=not is_true)
        elif not (isinstance(test, ast.Compare) and dotted_name(test.left) == "__name__"):
            name = dotted_name(test).rpartition(".")[2]
            yield (name, is_true) if name in _FLAGS else ("", True)

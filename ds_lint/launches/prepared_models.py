"""The models that a script gives ``Accelerator.prepare``, which takes one with its optimizer if it makes an engine."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, last_name, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.source.python_names import Assignment, ModuleNames

_LOADERS = ("from_config", "from_pretrained")
_MODELS = re.compile(r"Model|For[A-Z]|Autoencoder|Transformer")
_ADAPTED = ("PeftModel", "get_peft_model", "prepare_model_for_kbit_training")
_SCHEDULES = re.compile(r"torch\.optim\.lr_scheduler\.\w+|transformers\.(?:optimization\.)?get_\w*sche\w+")
_CONDITIONAL = (ast.If, ast.IfExp, ast.Try, ast.Match, ast.BoolOp)


class PreparedModels(NamedTuple):
    """A call of ``prepare`` that runs whenever it is reached, with so many models.

    ``has_no_optimizer`` says that nothing else that it gets is an optimizer; False if that is not certain.
    """

    function: str
    place: CodePlace
    models: int
    has_no_optimizer: bool


def prepared_models(names: ModuleNames, imported: ImportedNames) -> Iterator[PreparedModels]:
    """The calls that prepare models, as far as it is certain what they get."""
    return _PreparedReader(names, imported).read()


class _PreparedReader:
    def __init__(self, names: ModuleNames, imported: ImportedNames) -> None:
        self.names = names
        self.imported = imported
        self.modules = {
            node.name for node in names.every(ast.ClassDef) if any(self._is_module(base) for base in node.bases)
        }

    def read(self) -> Iterator[PreparedModels]:
        if "select_deepspeed_plugin" in self.names.calls_by_method:
            return  # each model may have a config of its own
        for call in self.names.calls:
            owner = dotted_name(call.func).rpartition(".")[0].rpartition(".")[2]
            if last_name(call) != "prepare" or owner != "accelerator" or self._is_conditional(call):
                continue
            models = [one for one in call.args if self._are_all(one, call, self._makes_model)]
            rest = [one for one in call.args if one not in models]
            has_none = not call.keywords and all(self._are_all(one, call, self._makes_other) for one in rest)
            if models:
                yield PreparedModels(written(call.func), place(call.func), len(models), has_none)

    def _is_conditional(self, node: ast.AST) -> bool:
        around = self.names.parents.get(node)
        while around is not None and not isinstance(around, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            if isinstance(around, _CONDITIONAL):
                return True
            around = self.names.parents.get(around)
        return False

    def _are_all(self, given: ast.expr, call: ast.Call, makes: Callable[[ast.Call], bool]) -> bool:
        """Whether everything that a name may mean is made by such a call."""
        if not (name := dotted_name(given)):
            return isinstance(given, ast.Call) and makes(given)
        found = [one for one in self.names.assignments(name, call) if self._is_before(one, call)]
        return bool(found) and all(isinstance(one.value, ast.Call) and makes(one.value) for one in found)

    def _is_before(self, one: Assignment, call: ast.Call) -> bool:
        """Whether a name may have a value when it is prepared: not what the call returns, nor what follows it."""
        here = self.names.places[self.names.statement(call)]
        if one.value is None:
            return one.place != here
        return one.value is not call and (one.place.scope is not here.scope or one.value.lineno < call.lineno)

    def _makes_model(self, made: ast.Call) -> bool:
        owner, _, method = dotted_name(made.func).rpartition(".")
        if method in _LOADERS:
            return _MODELS.search(owner.rpartition(".")[2]) is not None
        full = self.imported.full_name(dotted_name(made.func))
        return method in _ADAPTED or dotted_name(made.func) in self.modules or full.startswith("torch.nn.")

    def _makes_other(self, made: ast.Call) -> bool:
        full = self.imported.full_name(dotted_name(made.func))
        is_schedule = _SCHEDULES.fullmatch(full) is not None or full.endswith(".DummyScheduler")
        return is_schedule or full.endswith("utils.data.DataLoader")

    def _is_module(self, base: ast.expr) -> bool:
        return self.imported.full_name(dotted_name(base)) in ("torch.nn.Module", "torch.nn.modules.module.Module")

"""The models that a script gives ``Accelerator.prepare``, which takes one with its optimizer if it makes an engine."""

from __future__ import annotations

import ast
import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, keyword, last_name, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.launches.trained_names import TrainedNames
    from ds_lint.source.python_names import Assignment

_LOADERS = ("from_config", "from_pretrained")
_MODELS = re.compile(r"Model|For[A-Z]|Autoencoder|Transformer")
_ADAPTED = ("PeftModel", "get_peft_model", "prepare_model_for_kbit_training")
_SCHEDULES = re.compile(r"torch\.optim\.lr_scheduler\.\w+|transformers\.(?:optimization\.)?get_\w*sche\w+")
_NO_LOADERS = re.compile(
    r"(?!.*(?:load|data)).*(?:optim|sched).*|model|unet|transformer"
)  # names of which none is one of a loader of data
# Names of loaders of data that a model is not trained with.
_EVALUATES = re.compile(r"(?:^|[_.])(?:dev|eval|evaluation|test|val|valid|validation)(?:_|$)", re.IGNORECASE)
_MICRO = "train_micro_batch_size_per_gpu"
_CONDITIONAL = (ast.If, ast.IfExp, ast.Try, ast.Match, ast.BoolOp)


class PreparedCall(NamedTuple):
    """A call of ``prepare``, and what it certainly gets: so many models, no optimizer, no loader of data.

    ``sizeless`` is where a loader of data is made that has no batch size, as one with a ``batch_sampler``.
    ``batch_size`` is that of the loader of training data, as an expression; None if it does not show.
    """

    function: str
    place: CodePlace
    is_conditional: bool
    models: int
    has_no_optimizer: bool
    has_no_loader: bool
    has_loaders_alone: bool
    sizeless: CodePlace | None
    batch_size: str | None


def prepared_calls(trained: TrainedNames, imported: ImportedNames, sources: SourceReader) -> Iterator[PreparedCall]:
    """The calls of ``prepare`` in the order of the text, unless models may have configs of their own."""
    return _PreparedReader(trained, imported, sources).read()


class _PreparedReader:
    def __init__(self, trained: TrainedNames, imported: ImportedNames, sources: SourceReader) -> None:
        self.trained = trained
        self.sources = sources
        self.names = names = trained.names
        self.imported = imported
        self.modules = {
            node.name for node in names.every(ast.ClassDef) if any(self._is_module(base) for base in node.bases)
        }

    def read(self) -> Iterator[PreparedCall]:
        if "select_deepspeed_plugin" in self.names.calls_by_method:
            return
        sets_size = any(one.value == _MICRO for one in self.names.every(ast.Constant))
        splits = any(
            one.arg == "split_batches" for call in self.names.calls for one in call.keywords
        )  # among the ranks
        calls = sorted(self.names.calls, key=lambda call: (call.lineno, call.col_offset))
        for call in calls:
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if last_name(call) != "prepare" or owner is None or not self.trained.is_accelerator(owner):
                continue
            models, loaders, optimizers, schedules = (
                [one for one in call.args if self._are_all(one, call, makes)]
                for makes in (self._makes_model, self._makes_loader, self._makes_optimizer, self._makes_schedule)
            )
            others = [one for one in call.args if one not in (*models, *schedules)]
            named = [one for one in others if _NO_LOADERS.fullmatch(dotted_name(one).rpartition(".")[2])]
            yield PreparedCall(
                written(call.func),
                place(call.func),
                self._is_conditional(call),
                len(models),
                has_no_optimizer=not call.keywords and all(one in loaders for one in others),
                has_no_loader=bool(call.args) and not sets_size and all(one in (*optimizers, *named) for one in others),
                has_loaders_alone=len(loaders) == len(call.args),
                sizeless=None if sets_size else self._sizeless(loaders, call),
                batch_size=None if splits else self._batch_size(loaders, call),
            )

    def _sizeless(self, loaders: list[ast.expr], call: ast.Call) -> CodePlace | None:
        for loader in loaders:
            made = self._made(loader, call)
            sampled = [one for one in made if isinstance(one, ast.Call) and self._has_sampler(one)]
            if sampled and len(sampled) == len(made):
                return place(sampled[0].func)
        return None

    def _made(self, given: ast.expr, call: ast.Call) -> list[ast.expr | None]:
        """What a name may mean when it is prepared."""
        found = self.names.assignments(dotted_name(given), call)
        return [one.value for one in found if self._is_before(one, call)] if found else [given]

    def _batch_size(self, loaders: list[ast.expr], call: ast.Call) -> str | None:
        """What all loaders of training data have; None if that is not known, or differs."""
        trained = [one for one in loaders if not _EVALUATES.search(dotted_name(one))]
        found = {self._size_of(made) for one in trained for made in self._made(one, call)}
        return found.pop() if len(found) == 1 else None

    def _size_of(self, made: ast.expr | None) -> str | None:
        """The batch size of a ``DataLoader``, which is 1 unless it is told another one."""
        if not isinstance(made, ast.Call) or any(isinstance(one, ast.Starred) for one in made.args):
            return None
        if any(one.arg in (None, "batch_sampler") for one in made.keywords):
            return None
        given = keyword(made, "batch_size") or next(iter(made.args[1:2]), None)
        return "1" if given is None else self.sources.text(given)

    def _has_sampler(self, made: ast.Call) -> bool:
        given = keyword(made, "batch_sampler")
        return isinstance(given, (ast.Call, ast.Name)) and dotted_name(given) not in self._optional

    @functools.cached_property
    def _optional(self) -> set[str]:
        """The names that may be None."""
        return {
            dotted_name(target)
            for statement in self.names.every(ast.Assign)
            if isinstance(statement.value, (ast.Constant, ast.IfExp))
            for target in statement.targets
        }

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

    def _makes_loader(self, made: ast.Call) -> bool:
        return self.imported.full_name(dotted_name(made.func)).endswith("utils.data.DataLoader")

    def _makes_schedule(self, made: ast.Call) -> bool:
        full = self.imported.full_name(dotted_name(made.func))
        return _SCHEDULES.fullmatch(full) is not None or full.endswith(".DummyScheduler")

    def _makes_optimizer(self, made: ast.Call) -> bool:
        full = self.imported.full_name(dotted_name(made.func))
        return full.startswith("torch.optim.") or full.endswith(".DummyOptim")

    def _is_module(self, base: ast.expr) -> bool:
        return self.imported.full_name(dotted_name(base)) in ("torch.nn.Module", "torch.nn.modules.module.Module")

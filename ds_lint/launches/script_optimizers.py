"""The optimizer and the scheduler that a training script makes, and hands to what builds the engine.

That is ``deepspeed.initialize``, ``Accelerator.prepare``, or the Trainer as ``optimizers``.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import keyword, last_name, place
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.script_code import CodePlace, ImportedNames
    from ds_lint.launches.trained_names import TrainedNames
    from ds_lint.source.python_names import Assignment

# Packages of optimizers, none of which derives from DeepSpeedCPUAdam.
_OPTIMIZER_PACKAGES = (
    "apex", "bitsandbytes", "came_pytorch", "deepspeed", "galore_torch", "lion_pytorch", "prodigyopt",
    "pytorch_optimizer", "schedulefree", "timm", "torch", "torch_optimizer", "transformers",
)  # fmt: skip
_OF_SCHEDULES = re.compile(r"torch\.optim\.lr_scheduler\.\w+|transformers\.(?:optimization\.)?get_\w*sche\w+")
_PLACEHOLDERS = ("DummyOptim", "DummyScheduler")  # of accelerate, for those of the config
_OTHERS = ("DataLoader", "from_config", "from_pretrained", "get_peft_model")  # what makes models and loaders of data
_TRAINERS = re.compile(r"\w*Trainer")
_POSITIONS = {"optimizer": 2, "lr_scheduler": 5}  # of ``deepspeed.initialize``


class HandedObject(NamedTuple):
    """What a script makes and hands over: its class, or the function that makes it, and where that is called.

    ``given`` are the keywords of that call: "*" stands for arguments behind the first two, and "**" for those that do
    not show.
    """

    name: str
    place: CodePlace
    given: frozenset[str] = frozenset()

    @property
    def class_name(self) -> str:
        """The name without that of its module."""
        return self.name.rpartition(".")[2]

    @property
    def is_placeholder(self) -> bool:
        """Whether it stands for what the config names."""
        return self.class_name in _PLACEHOLDERS


class ScriptOptimizers(NamedTuple):
    """What all calls that build an engine are handed.

    ``has_optimizer`` and ``has_scheduler`` are None where that is computed, or where the calls differ; the object is
    None if it is not certain what makes it. ``trains`` says that the script calls ``backward`` or ``step``.
    """

    function: str
    place: CodePlace
    has_optimizer: bool | None
    has_scheduler: bool | None
    optimizer: HandedObject | None
    scheduler: HandedObject | None
    has_callable: bool  # the placeholder of a scheduler makes a schedule of its own
    trains: bool


def handed_optimizers(trained: TrainedNames, imported: ImportedNames) -> ScriptOptimizers | None:
    """What a script hands over; None if nothing in it builds an engine, or several things do."""
    return _OptimizerReader(trained, imported).read()


class _OptimizerReader:
    def __init__(self, trained: TrainedNames, imported: ImportedNames) -> None:
        self.trained = trained
        self.names = trained.names
        self.imported = imported

    def read(self) -> ScriptOptimizers | None:
        found = [one for call in self.names.calls if (one := self._by_call(call)) is not None]
        if len({one.function for one in found}) != 1:
            return None
        if len(found) == 1:
            return found[0]
        optimizers, schedulers = {one.has_optimizer for one in found}, {one.has_scheduler for one in found}
        return found[0]._replace(
            has_optimizer=found[0].has_optimizer if len(optimizers) == 1 else None,
            has_scheduler=found[0].has_scheduler if len(schedulers) == 1 else None,
            optimizer=None,
            scheduler=None,
        )

    def _by_call(self, call: ast.Call) -> ScriptOptimizers | None:
        name = dotted_name(call.func)
        if self.imported.full_name(name) == "deepspeed.initialize" or name.endswith("deepspeed.initialize"):
            return self._by_initialize(call)
        if isinstance(call.func, ast.Attribute) and call.func.attr == "prepare":
            is_of_accelerate = "accelerator" in name.lower() or self.trained.is_accelerator(call.func.value)
            return self._by_prepare(call) if is_of_accelerate else None
        if _TRAINERS.fullmatch(last_name(call)) and (given := keyword(call, "optimizers")) is not None:
            return self._by_trainer(call, given)
        return None

    def _by_initialize(self, call: ast.Call) -> ScriptOptimizers:
        is_open = any(one.arg is None for one in call.keywords) or any(
            isinstance(one, ast.Starred) for one in call.args
        )
        given = {
            name: keyword(call, name) or next(iter(call.args[position : position + 1]), None)
            for name, position in _POSITIONS.items()
        }
        has = {name: self._is_given(one) if one is not None or not is_open else None for name, one in given.items()}
        optimizer = self._made(given["optimizer"], call)
        return ScriptOptimizers(
            "deepspeed.initialize",
            place(call.func),
            has["optimizer"],
            has["lr_scheduler"],
            optimizer if optimizer is not None and self._is_optimizer(optimizer) else None,
            self._made(given["lr_scheduler"], call),
            has_callable=False,
            trains=self._trains(),
        )

    def _by_prepare(self, call: ast.Call) -> ScriptOptimizers | None:
        made = [(one, node) for node in call.args if (one := self._made(node, call)) is not None]
        optimizers = [(one, node) for one, node in made if self._is_optimizer(one)]
        schedulers = [(one, node) for one, node in made if self._is_scheduler(one)]
        has_none = not optimizers and self._has_no_optimizer(call)
        if len(optimizers) > 1 or len(schedulers) > 1 or not (optimizers or schedulers or has_none):
            return None
        scheduler = self._call_behind(schedulers[0][1], call) if schedulers else None
        return ScriptOptimizers(
            "accelerator.prepare",
            place(call.func),
            bool(optimizers) or (False if has_none else None),
            bool(schedulers) or None,
            optimizers[0][0] if optimizers else None,
            schedulers[0][0] if schedulers else None,
            has_callable=scheduler is not None
            and (
                len(scheduler.args) > 3 or any(one.arg in (None, "lr_scheduler_callable") for one in scheduler.keywords)
            ),
            trains=self._trains(),
        )

    def _has_no_optimizer(self, call: ast.Call) -> bool:
        """Whether the only call of ``prepare`` gets models, data and schedulers alone."""
        others = [one for one in self.names.calls if last_name(one) == "prepare" and one is not call]
        return bool(call.args) and not others and all(self._is_other(one, call) for one in call.args)

    def _is_other(self, given: ast.expr, call: ast.Call) -> bool:
        """Whether something is a model, a loader of data or a scheduler."""
        if (made := self._made(given, call)) is not None and self._is_scheduler(made):
            return True
        behind = self._call_behind(given, call)
        return behind is not None and last_name(behind) in _OTHERS

    def _by_trainer(self, call: ast.Call, given: ast.expr) -> ScriptOptimizers | None:
        if isinstance(given, ast.Name):
            assigned = self._assigned(given)
            given = assigned[0].value or given if len(assigned) == 1 else given
        if not isinstance(given, (ast.Tuple, ast.List)) or len(given.elts) != 2:
            return None
        first, second = given.elts
        made = self._made(first, call)
        return ScriptOptimizers(
            last_name(call),
            place(call.func),
            self._is_given(first),
            self._is_given(second),
            made if made is not None and self._is_optimizer(made) else None,
            self._made(second, call),
            has_callable=False,
            trains=True,
        )

    # ------------------------------------------------------------------------------------------------------- values

    def _is_given(self, node: ast.expr | None, depth: int = 3) -> bool | None:
        """Whether a value is certainly an object; False if it is None."""
        if node is None or (isinstance(node, ast.Constant) and node.value is None):
            return False
        if isinstance(node, ast.Call):
            return True if dotted_name(node.func) not in self.names.functions else None
        if not dotted_name(node) or depth == 0:
            return None
        values = {
            self._is_given(one.value, depth - 1) if one.value is not None else None for one in self._assigned(node)
        }
        return values.pop() if len(values) == 1 else None

    def _assigned(self, node: ast.expr) -> list[Assignment]:
        """The assignments to a name, without that of the call itself: ``engine, optimizer, _, _ = initialize(...)``."""
        name, statement = dotted_name(node), self.names.statement(node)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        names = [dotted_name(one) for target in targets for one in getattr(target, "elts", [target])]
        found = self.names.assignments(name, node)
        own = [one for one in found if one.value is None and one.place == self.names.places[statement]]
        return [one for one in found if one not in own[: names.count(name)]]

    def _call_behind(self, given: ast.expr | None, call: ast.Call) -> ast.Call | None:
        """The only call that a value comes from, which runs whenever the call does that it is handed to."""
        if given is None or isinstance(given, ast.Call):
            return given
        found = self._assigned(given) if dotted_name(given) else []
        value = found[0].value if len(found) == 1 else None
        is_straight = bool(found) and found[0].place == self.names.places[call]
        return value if isinstance(value, ast.Call) and is_straight else None

    def _made(self, given: ast.expr | None, call: ast.Call) -> HandedObject | None:
        made = self._call_behind(given, call)
        name = self.imported.full_name(dotted_name(made.func)) if made is not None else ""
        if made is None or not name:
            return None
        keywords = ("**" if one.arg is None else one.arg for one in made.keywords)
        positions = ("*" for place, one in enumerate(made.args) if place > 1 or isinstance(one, ast.Starred))
        return HandedObject(name, place(made.func), frozenset((*keywords, *positions)))

    def _is_optimizer(self, made: HandedObject) -> bool:
        if made.name.endswith(".DummyOptim"):
            return True
        return (
            made.name.partition(".")[0] in _OPTIMIZER_PACKAGES
            and not _is_model_or_data(made.name)
            and not (self._is_scheduler(made))
        )

    def _is_scheduler(self, made: HandedObject) -> bool:
        return made.name.endswith(".DummyScheduler") or _OF_SCHEDULES.fullmatch(made.name) is not None

    def _trains(self) -> bool:
        methods = (call.func.attr for call in self.names.calls if isinstance(call.func, ast.Attribute))
        return any(method in ("backward", "step") for method in methods)


def _is_model_or_data(name: str) -> bool:
    """Whether a class of torch or transformers is not an optimizer: torch has them in ``torch.optim``."""
    package = name.split(".")
    if package[0] == "torch":
        return package[1:2] != ["optim"]
    return package[0] == "transformers" and package[-1] not in ("AdamW", "Adafactor")

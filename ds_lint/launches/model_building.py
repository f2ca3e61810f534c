"""Whether a script builds the model that it trains in partitions, or whole, at stage 3.

``deepspeed.zero.Init`` around the code that builds it partitions it, and transformers enters that by itself if it has
been told the config. A model that is built otherwise is whole on each rank until ``deepspeed.initialize`` has moved it
to the GPU, wherever ``offload_param`` puts it then: ``_configure_distributed_model`` in deepspeed/runtime/engine.py.
"""

from __future__ import annotations

import ast
import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, ImportedNames, keyword, last_name, literal, place, written
from ds_lint.source.python_names import ModuleNames, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_loading import LoadReader
    from ds_lint.launches.trained_names import TrainedNames, Wrap

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOADS = ("from_pretrained", "from_config")  # of transformers; each asks whether stage 3 is on
_WRAPS = ("get_peft_model", "prepare_model_for_int8_training", "prepare_model_for_kbit_training")
_RETURNS_ITSELF = ("bfloat16", "cpu", "cuda", "eval", "float", "half", "requires_grad_", "to", "train")
_OF_MODELS = re.compile(r"Model|For[A-Z]")  # in the names of classes of models
_UNKNOWN: list[ast.expr | None] = [None]
_MOST = 16  # expressions that make a model; a script with more of them is not followed
_DEPTH = 8  # names and functions that lead to each other
# Packages whose classes make whole models, and whose contexts partition none.
_BUILDS_WHOLE = ("diffusers", "timm", "torch", "torchvision", "transformers")


class WholeModel(NamedTuple):
    """A call that makes the model of ``deepspeed.initialize`` whole at stage 3.

    ``is_load`` says that ``from_pretrained`` or ``from_config`` makes it, which partition it if transformers has been
    told the config, and not its class. ``setup`` is the call that tells transformers the config: behind a load, or
    before a call of the class. A load without it has none anywhere.
    """

    function: str
    place: CodePlace
    is_load: bool
    setup: tuple[str, CodePlace] | None


class BuildReader:
    """How the trained models of a module are built."""

    def __init__(self, names: ModuleNames, trained: TrainedNames, imported: ImportedNames, loading: LoadReader) -> None:
        self.names = names
        self.trained = trained
        self.imported = imported
        self.loading = loading

    def is_partitioned(self) -> bool | None:
        """Whether all trained models are built in partitions at stage 3 (True) or whole (False); None if unknown."""
        made = list(islice((one for wrap in self.trained.wraps for one in self._made_for(wrap)), _MOST + 1))
        if len(made) > _MOST:
            return None
        found = [self._is_built_in_parts(one) for one in made]
        return found[0] if found and all(one is found[0] for one in found) else None

    def whole(self) -> WholeModel | None:
        """The only call that makes what ``deepspeed.initialize`` takes, if it certainly makes it whole."""
        wraps = [wrap for wrap in self.trained.wraps if last_name(wrap.call) == "initialize"]
        made = list(islice((one for wrap in wraps for one in self._made_for(wrap)), 2))
        call = made[0] if len(made) == 1 else None
        if not isinstance(call, ast.Call) or self._is_built_in_parts(call) is not False:
            return None
        if not self.imported.full_name(dotted_name(call.func)).startswith("transformers."):
            return None
        is_load = last_name(call) in _LOADS
        if not is_load and not _OF_MODELS.search(last_name(call)):
            return None
        setups = self.loading.setups
        if is_load:
            found = [one for one in setups if self.trained.precedes(call, one)]
        else:
            found = [one for one in setups if self.trained.precedes(one, call)]
        if not found and (setups or not is_load):
            return None
        setup = (written(found[0].func), place(found[0].func)) if found else None
        return WholeModel(written(call.func), place(call.func), is_load, setup)

    def is_built_in_parts(self, model: ast.expr) -> bool:
        """Whether the only expression that makes a model certainly builds it in partitions at stage 3."""
        made = self.maker(model)
        return isinstance(made, ast.Call) and self._is_built_in_parts(made) is True

    def maker(self, model: ast.expr) -> ast.expr | None:
        """The only expression that makes a model; None if it does not show."""
        made = list(islice(self._makers(model, _DEPTH), 2))
        return made[0] if len(made) == 1 else None

    def _made_for(self, wrap: Wrap) -> Iterator[ast.expr | None]:
        """What makes the model that a call takes; ``Accelerator.prepare`` takes models and others, in any order."""
        if last_name(wrap.call) != "prepare":
            for model in wrap.models[:1]:
                yield from self._makers(model, _DEPTH)
            return
        made = list(islice((one for model in wrap.models for one in self._makers(model, _DEPTH)), _MOST + 1))
        loads = [one for one in made if isinstance(one, ast.Call) and last_name(one) in _LOADS]
        yield from loads or _UNKNOWN

    # -------------------------------------------------------------------------------------------------------- makers

    def _makers(self, node: ast.expr, depth: int) -> Iterator[ast.expr | None]:
        """The expressions that make a model; None for one that is not known."""
        if depth == 0:
            yield None
        elif isinstance(node, ast.Call):
            yield from self._makers_by(node, depth)
        elif name := dotted_name(node):
            yield from self._makers_of(name, node, depth)
        else:
            yield node if isinstance(node, ast.Constant) else None

    def _makers_by(self, call: ast.Call, depth: int) -> Iterator[ast.expr | None]:
        """What makes the model that a call returns: another call of which it passes the model on, or itself."""
        functions = self.names.functions.get(dotted_name(call.func), [])
        if last_name(call) in _WRAPS and call.args:
            yield from self._makers(call.args[0], depth - 1)
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _RETURNS_ITSELF:
            yield from self._makers(call.func.value, depth - 1)
        elif functions:
            returned = [
                one.value for one in ast.walk(functions[0]) if isinstance(one, ast.Return) and one.value is not None
            ]
            if len(functions) > 1 or len(returned) != 1:
                yield None
            else:
                yield from self._makers(returned[0], depth - 1)
        else:
            yield call

    def _makers_of(self, name: str, node: ast.expr, depth: int) -> Iterator[ast.expr | None]:
        """What makes the model that a name means at a node."""
        scope = self.names.places[node].scope
        values = [one.value for one in self.names.assignments(name, node) if one.value is not None]
        if values:
            for value in values:  # ``model = get_peft_model(model)`` brings nothing new
                if not self._is_of_itself(name, value):
                    yield from self._makers(value, depth - 1)
        elif isinstance(scope, _FUNCTIONS) and name in (order := [one.arg for one in scope.args.args]):
            calls = self.trained.calls_of(scope)
            given = [self.trained.argument(call, name, order.index(name)) for call in calls]
            if not given or None in given:
                yield None
            for one in given:
                if one is not None:
                    yield from self._makers(one, depth - 1)
        else:
            yield None

    def _is_of_itself(self, name: str, value: ast.expr) -> bool:
        """Whether a value is a model in a wrap, or on another device, under the name that it has."""
        if not isinstance(value, ast.Call):
            return False
        is_wrapped = last_name(value) in (*_WRAPS, "initialize", "prepare") and any(
            dotted_name(one) == name for one in (*value.args, *(given.value for given in value.keywords))
        )
        is_moved = last_name(value) in _RETURNS_ITSELF and dotted_name(value.func).rpartition(".")[0] == name
        return is_wrapped or is_moved

    # -------------------------------------------------------------------------------------------------------- places

    def _is_built_in_parts(self, made: ast.expr | None) -> bool | None:
        if isinstance(made, ast.Constant):  # the name of a model, which a trainer of trl loads itself
            return True if isinstance(made.value, str) else None
        if not isinstance(made, ast.Call):
            return None
        contexts = [self._is_partitioning(one) for one in self._contexts(made, _DEPTH)]
        if True in contexts or None in contexts:
            return True if True in contexts else None
        full = self.imported.full_name(dotted_name(made.func))
        if last_name(made) in _LOADS:
            return self.loading.tells_before(made) if full.startswith("transformers.") else None
        return self._is_whole_class(full, dotted_name(made.func))

    def _is_whole_class(self, full: str, name: str) -> bool | None:
        """False for a class that nothing partitions as it is made; None for what is not known."""
        if full.partition(".")[0] in _BUILDS_WHOLE:
            return False
        is_own = any(node.name == name for node in self.names.every(ast.ClassDef))
        is_alone = not self.loading.calls and not any(self._is_init(call) for call in self.names.calls)
        return False if is_own and is_alone else None

    def _contexts(self, node: ast.AST, depth: int) -> Iterator[ast.expr]:
        """What is entered around a node, in its function and around the calls of that."""
        yield from self.trained.contexts(node)
        scope = self.names.places[node].scope
        for call in self.trained.calls_of(scope) if depth and isinstance(scope, _FUNCTIONS) else ():
            yield from self._contexts(call, depth - 1)

    def _is_partitioning(self, context: ast.expr) -> bool | None:
        """Whether a context partitions what is built in it; None if that is not known."""
        meant = self.trained.meant(context)
        if not isinstance(meant, ast.Call):
            return None
        if self._is_init(meant):
            enabled = keyword(meant, "enabled")
            return True if enabled is None else {True: True, False: False}.get(literal(enabled))
        return False if self.imported.full_name(dotted_name(meant.func)).partition(".")[0] == "torch" else None

    def _is_init(self, call: ast.Call) -> bool:
        name = dotted_name(call.func)
        full = self.imported.full_name(name) or name
        return full.startswith(("deepspeed.", "ds.")) and last_name(call) == "Init"

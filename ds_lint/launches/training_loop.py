"""The loop in which a script calls the engine itself: how it accumulates, divides the loss, clips and steps.

Numbers are expressions of ``SourceReader``, since they often come from the command line.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from ds_lint.launches.script_code import CodePlace, keyword, last_name, literal, place, written
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.launches.trained_names import TrainedNames

_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_STEPS = "gradient_accumulation_steps"
# What decides by itself when gradients are applied.
_ACCUMULATES = frozenset({
    "accumulate", "no_sync", "_do_sync", "_set_sync_gradients", "set_gradient_accumulation_boundary",
    "trigger_sync_in_backward",
})  # fmt: skip
_CHANGES = ("update", "setdefault", "deepspeed_config_process", "fill_match", "set")  # methods that change a config
_OF_ACCUMULATION = re.compile(r"accum|\bgas\b", re.IGNORECASE)
_KNOWN_CONTEXTS = ("torch", "contextlib", "warnings", "accelerate", "deepspeed", "transformers", "tqdm")
_CLIPS = re.compile(r"torch\.nn\.utils\.(?:clip_grad\.)?clip_grad_(?:norm|value)_")
_DEPTH = 3


class LoopNumber(NamedTuple):
    """A number in a loop. ``is_of_engine`` says that it is the number of steps that the engine accumulates."""

    expression: str
    is_of_engine: bool
    place: CodePlace


class PluginCall(NamedTuple):
    """A ``DeepSpeedPlugin`` that ``Accelerator`` gets: its keywords as expressions; None if they are not known."""

    keywords: tuple[tuple[str, str], ...] | None
    place: CodePlace


class LoopCall(NamedTuple):
    """A call in a loop."""

    function: str
    place: CodePlace


class RareStep(NamedTuple):
    """A step under a condition on the number of batches; ``number`` is None if the engine is asked for its boundary."""

    function: str
    place: CodePlace
    number: LoopNumber | None


class ClipCall(NamedTuple):
    """Gradients are clipped by torch, or by Accelerate, which leaves it to the engine.

    ``conditions`` are expressions, each with whether it has to hold for the call to run.
    """

    function: str
    place: CodePlace
    limit: LoopNumber
    is_by_torch: bool
    conditions: tuple[tuple[str, bool], ...]


class TrainingLoop(NamedTuple):
    """What a script does itself that the engine does too; None for what it does not do, or not for certain.

    ``accumulation`` and ``precision`` are what ``Accelerator`` gets. ``backward`` is the call that Accelerate or the
    engine makes gradients with, and ``bare`` one of torch, where there is no other. ``may_accumulate`` says that
    something of the script decides when gradients are applied. ``divisor`` is what the loss is divided by.
    """

    accumulation: LoopNumber | None
    precision: LoopNumber | None
    plugin: PluginCall | None
    backward: LoopCall | None
    bare: LoopCall | None
    may_accumulate: bool
    accumulate: LoopCall | None
    no_sync: LoopCall | None
    step: RareStep | None
    divisor: LoopNumber | None
    clips: tuple[ClipCall, ...]


def training_loop(trained: TrainedNames, imported: ImportedNames, sources: SourceReader) -> TrainingLoop | None:
    """The loop of a script; None if it calls neither ``Accelerator`` nor ``deepspeed.initialize``."""
    return _LoopReader(trained, imported, sources).read()


class _LoopReader:
    def __init__(self, trained: TrainedNames, imported: ImportedNames, sources: SourceReader) -> None:
        self.names = trained.names
        self.trained = trained
        self.imported = imported
        self.sources = sources
        self.accelerators = [call for call in self.names.calls if last_name(call) == "Accelerator"]

    def read(self) -> TrainingLoop | None:
        engines = [wrap for wrap in self.trained.wraps if wrap.engines]
        if not engines:
            return None
        own = self._methods("backward")
        backward = next((call for call in own if self._is_owner(call) and self._loop(call) is not None), None)
        return TrainingLoop(
            accumulation=self._accumulation(),
            precision=self._precision(),
            plugin=self._plugin(),
            backward=_call(backward) if backward is not None else None,
            bare=self._bare(own),
            may_accumulate=self._may_accumulate(backward),
            accumulate=self._around(backward, "accumulate") if backward is not None else None,
            no_sync=self._around(backward, "no_sync") if backward is not None else None,
            step=self._rare_step(backward) if backward is not None else None,
            divisor=self._divisor(backward) if backward is not None else None,
            clips=tuple(self._clips()),
        )

    # ------------------------------------------------------------------------------------------------- accumulation

    def _accumulation(self) -> LoopNumber | None:
        if len(self.accelerators) != 1 or self._changes_config():
            return None
        (call,) = self.accelerators
        names = [one.arg for one in call.keywords]
        if None in names or "deepspeed_plugin" in names or "deepspeed_plugins" in names:
            return None
        plugin = self.trained.meant(keyword(call, "gradient_accumulation_plugin"))
        if isinstance(plugin, ast.Call) and last_name(plugin) == "GradientAccumulationPlugin":
            given = keyword(plugin, "num_steps") or next(iter(plugin.args[:1]), None)
        else:
            given = keyword(call, _STEPS)
        return self._number(given) if given is not None else None

    def _precision(self) -> LoopNumber | None:
        """The precision that the only ``Accelerator`` gets."""
        if len(self.accelerators) != 1 or any(one.arg is None for one in self.accelerators[0].keywords):
            return None
        given = keyword(self.accelerators[0], "mixed_precision")
        return self._number(given) if given is not None else None

    def _plugin(self) -> PluginCall | None:
        """The plugin that a script makes itself, of which some keywords may be left to the environment."""
        calls = [call for call in self.accelerators if _given_plugin(call) is not None]
        if not calls:
            return None
        given = self.trained.meant(_given_plugin(calls[0]))
        is_plugin = isinstance(given, ast.Call) and last_name(given) == "DeepSpeedPlugin" and len(calls) == 1
        if not isinstance(given, ast.Call) or not is_plugin or given.args or self._changes_plugin():
            return PluginCall(None, place(calls[0]))
        if any(one.arg is None for one in given.keywords):
            return PluginCall(None, place(given))
        written_ones = ((str(one.arg), self.sources.text(one.value)) for one in given.keywords)
        return PluginCall(tuple(written_ones), place(given))

    def _changes_plugin(self) -> bool:
        """Whether the script sets an attribute of a plugin, which then counts."""
        stored = (one for one in self.names.every(ast.Attribute) if isinstance(one.ctx, ast.Store))
        return any("plugin" in ast.unparse(one.value).lower() for one in stored)

    def _changes_config(self) -> bool:
        """Whether the script writes the number of steps into a config, a plugin or the accelerator."""
        for attribute in self.names.every(ast.Attribute):
            if attribute.attr == _STEPS and isinstance(attribute.ctx, ast.Store):
                return True
        for item in self.names.every(ast.Subscript):
            if literal(item.slice) == _STEPS and isinstance(item.ctx, ast.Store):
                return True
        changing = [call for call in self.names.calls if getattr(call.func, "attr", "") in _CHANGES]
        return any(getattr(one, "value", None) == _STEPS for call in changing for one in ast.walk(call))

    def _may_accumulate(self, backward: ast.Call | None) -> bool:
        """Whether anything but the engine may decide when gradients are applied."""
        attributes = self.names.every(ast.Attribute)
        if any(one.attr in _ACCUMULATES for one in attributes) or self._changes_config():
            return True
        if any(one.attr == "sync_gradients" and isinstance(one.ctx, ast.Store) for one in attributes):
            return True
        if backward is None:
            return False
        return not all(self._is_known(context) for context in self.trained.entered(backward))

    def _around(self, backward: ast.Call, method: str) -> LoopCall | None:
        """The context that a method of the accelerator or the engine makes around ``backward``."""
        for context in self.trained.entered(backward):
            if (
                isinstance(context, ast.Call)
                and getattr(context.func, "attr", "") == method
                and self._is_owner(context)
            ):
                return _call(context)
        return None

    def _is_known(self, context: ast.expr) -> bool:
        """Whether it is known of a context that it does not accumulate."""
        meant = self.trained.meant(context)
        called = meant.func if isinstance(meant, ast.Call) else meant
        if called is None or not (name := dotted_name(called)):
            return False
        if self._is_accelerator(called.value if isinstance(called, ast.Attribute) else called):
            return True
        full = self.imported.full_name(name) or name
        return full.partition(".")[0] in _KNOWN_CONTEXTS

    # ------------------------------------------------------------------------------------------------ calls in loops

    def _methods(self, name: str) -> list[ast.Call]:
        return self.names.calls_by_method.get(name, [])

    def _is_owner(self, call: ast.Call) -> bool:
        """Whether a method is one of the accelerator, or of the engine of ``deepspeed.initialize``."""
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        return owner is not None and (self._is_accelerator(owner) or self.trained.is_engine(owner))

    def _is_accelerator(self, node: ast.expr) -> bool:
        return bool(self.accelerators) and self.trained.is_accelerator(node)

    def _loop(self, node: ast.AST, depth: int = _DEPTH) -> ast.AST | None:
        """The loop that runs a node, or all calls of its function."""
        below: ast.AST | None = node
        while below is not None and not isinstance(below, _FUNCTIONS):
            if isinstance(below, _LOOPS):
                return below
            below = self.names.parents.get(below)
        if not isinstance(below, (ast.FunctionDef, ast.AsyncFunctionDef)) or depth == 0:
            return None
        loops = {self._loop(call, depth - 1) for call in self.trained.calls_of(below)}
        return loops.pop() if len(loops) == 1 else None

    def _bare(self, backwards: list[ast.Call]) -> LoopCall | None:
        """The first ``loss.backward()``, in a script that never lets the engine make gradients."""
        if any(self._is_owner(call) or call.args or call.keywords for call in backwards):
            return None
        if any(self._is_handed_on(call) for call in self.names.calls):
            return None
        for call in backwards:
            owner = dotted_name(call.func.value) if isinstance(call.func, ast.Attribute) else ""
            if "loss" in owner.lower() and self._comes_from_engine(call) and self._loop(call) is not None:
                return _call(call)
        return None

    def _comes_from_engine(self, backward: ast.Call) -> bool:
        """Whether the engine is called in the function that calls ``backward``."""
        scope = self.names.places[backward].scope
        return any(
            self.names.places[call].scope is scope and self.trained.is_engine(call.func) for call in self.names.calls
        )

    def _is_handed_on(self, call: ast.Call) -> bool:
        """Whether something of which it is not known what it does gets the accelerator or the engine."""
        given = (*call.args, *(one.value for one in call.keywords))
        return self.imported.is_unknown(dotted_name(call.func)) and any(
            self._is_accelerator(one) or self.trained.is_engine(one) for one in given
        )

    # -------------------------------------------------------------------------------------------------------- steps

    def _rare_step(self, backward: ast.Call) -> RareStep | None:
        for call in self._methods("step"):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if owner is None or not self.trained.is_engine(owner) or self._loop(call) is not self._loop(backward):
                continue
            if self.accelerators and "optim" not in dotted_name(owner).lower():
                continue
            for condition in self._conditions(call):
                if backward in ast.walk(condition):
                    continue
                if any(
                    getattr(one, "attr", "") == "is_gradient_accumulation_boundary" for one in ast.walk(condition.test)
                ):
                    return RareStep(written(call.func), place(call.func), None)
                rests = [one for one in ast.walk(condition.test) if isinstance(one, ast.BinOp)]
                number = next((one.right for one in rests if isinstance(one.op, ast.Mod)), None)
                if number is not None:
                    return RareStep(written(call.func), place(call.func), self._number(number))
        return None

    def _conditions(self, node: ast.AST) -> Iterator[ast.If]:
        """The conditions in the loop under which a node runs."""
        below, around = node, self.names.parents.get(node)
        while around is not None and not isinstance(around, (*_LOOPS, *_FUNCTIONS)):
            if isinstance(around, ast.If) and below in around.body:
                yield around
            below, around = around, self.names.parents.get(around)

    # ---------------------------------------------------------------------------------------------------- the loss

    def _divisor(self, backward: ast.Call) -> LoopNumber | None:
        if len(backward.args) != 1 or backward.keywords:
            return None
        (loss,) = backward.args
        if _is_quotient(loss):
            return self._counts(loss.right, backward, backward)
        name = dotted_name(loss)
        found = [node for node in self.names.every(ast.AugAssign) if dotted_name(node.target) == name != ""]
        for node in found:
            if isinstance(node.op, ast.Div) and self._precedes(node, backward):
                return self._counts(node.value, node, backward)
        for assignment in self.names.every(ast.Assign):
            is_to_loss = [dotted_name(one) for one in assignment.targets] == [name]
            if is_to_loss and self._precedes(assignment, backward) and _is_quotient(assignment.value):
                return self._counts(assignment.value.right, assignment, backward)
        return None

    def _counts(self, number: ast.expr, at: ast.AST, backward: ast.Call) -> LoopNumber | None:
        """A divisor that is called like the number of steps, if no condition but that number decides about it."""
        text, around = ast.unparse(number), list(self._conditions(backward))
        tests = [ast.unparse(condition.test) for condition in self._conditions(at) if condition not in around]
        if not _OF_ACCUMULATION.search(text) or any(not one.startswith(f"{text} >") for one in tests):
            return None
        return self._number(number)

    def _precedes(self, one: ast.stmt, backward: ast.Call) -> bool:
        """Whether a statement runs before ``backward`` in the same pass of the loop."""
        is_same = self.names.places[one].scope is self.names.places[backward].scope
        return is_same and one.lineno < backward.lineno and self._loop(one) is self._loop(backward)

    # -------------------------------------------------------------------------------------------------------- clips

    def _clips(self) -> Iterator[ClipCall]:
        for call in self.names.calls:
            if last_name(call) not in ("clip_grad_norm_", "clip_grad_value_") or not isinstance(
                call.func, (ast.Attribute, ast.Name)
            ):
                continue
            limit = keyword(call, "max_norm") or keyword(call, "clip_value") or next(iter(call.args[1:2]), None)
            name = self.imported.full_name(dotted_name(call.func))
            is_by_torch = _CLIPS.fullmatch(name) is not None
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            is_ours = self._clips_model(call) if is_by_torch else owner is not None and self._is_accelerator(owner)
            if limit is not None and is_ours:
                conditions = self.sources.conditions(call) or ()
                yield ClipCall(written(call.func), place(call.func), self._number(limit), is_by_torch, conditions)

    def _clips_model(self, call: ast.Call) -> bool:
        """Whether the parameters are all those of the model that is trained."""
        given = self.trained.meant(next(iter(call.args[:1]), None) or keyword(call, "parameters"))
        return (
            isinstance(given, ast.Call)
            and isinstance(given.func, ast.Attribute)
            and given.func.attr == "parameters"
            and self.trained.is_trained(given.func.value)
        )

    def _number(self, node: ast.expr) -> LoopNumber:
        called = node.func if isinstance(node, ast.Call) else node
        is_of_engine = (
            isinstance(called, ast.Attribute)
            and called.attr == _STEPS
            and (self._is_accelerator(called.value) or (called is not node and self.trained.is_engine(called.value)))
        )
        return LoopNumber(self.sources.text(node), is_of_engine, place(node))


def _is_quotient(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)


def _given_plugin(call: ast.Call) -> ast.expr | None:
    return keyword(call, "deepspeed_plugin") or keyword(call, "deepspeed_plugins")


def _call(call: ast.Call) -> LoopCall:
    return LoopCall(written(call.func), place(call.func))

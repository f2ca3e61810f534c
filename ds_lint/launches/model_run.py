"""The arguments with which a script runs its model: of ``init_inference``, of ``generate``, and of its Trainer."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.trained_names import TrainedNames

_TRAINERS = re.compile(r"\w*Trainer")
_ARGUMENTS = re.compile(r"(?:\w*_)?args")  # what a parser returns, as scripts name it
_WIDTHS = ("bfloat16", "float", "float16", "float32", "half", "int8")
_CONFIGS = ("config", "generation_config")  # arguments that hold others


class Flag(NamedTuple):
    """A value that an argument of the script decides."""

    name: str


class ModelRun(NamedTuple):
    """The arguments of the only call of each kind, by name: a value, a ``Flag``, or UNKNOWN; None if there is no call.

    ``metrics`` says what the Trainer computes from predictions: "none" if it is given no ``compute_metrics``, "logits"
    if it gets the logits, "reduced" if they are preprocessed, and "unknown".
    """

    inference: tuple[tuple[str, Any], ...] | None
    generation: tuple[tuple[str, Any], ...] | None
    metrics: str


def model_run(trained: TrainedNames) -> ModelRun | None:
    """How a module runs its model; None if it does in none of these ways."""
    reader = _RunReader(trained)
    found = ModelRun(reader.arguments("init_inference"), reader.arguments("generate"), reader.metrics())
    return found if found != (None, None, "") else None


class _RunReader:
    def __init__(self, trained: TrainedNames) -> None:
        self.trained = trained
        self.calls = trained.names.calls

    def arguments(self, function: str) -> tuple[tuple[str, Any], ...] | None:
        """The arguments of the calls of a function; what two of them disagree about is unknown."""
        found: dict[str, Any] = {}
        calls = [call for call in self.calls if last_name(call) == function]
        for call in calls:
            for name, value in self._given(call):
                found[name] = value if found.get(name, value) == value else UNKNOWN
        return tuple(found.items()) if calls else None

    def metrics(self) -> str:
        """What a Trainer computes from predictions; "" if there is none."""
        calls = [call for call in self.calls if _TRAINERS.fullmatch(last_name(call))]
        found = {self._metrics_of(call) for call in calls}
        return found.pop() if len(found) == 1 else "unknown" if found else ""

    def _metrics_of(self, call: ast.Call) -> str:
        if any(one.arg is None for one in call.keywords):
            return "unknown"
        if self._is_none(keyword(call, "compute_metrics")):
            return "none"
        return "logits" if self._is_none(keyword(call, "preprocess_logits_for_metrics")) else "reduced"

    def _is_none(self, node: ast.expr | None) -> bool:
        meant = self.trained.meant(node)
        return node is None or (isinstance(meant, ast.Constant) and meant.value is None)

    def _given(self, call: ast.Call) -> Iterator[tuple[str, Any]]:
        for one in call.keywords:
            value = self.trained.meant(one.value)
            if one.arg is None or one.arg in _CONFIGS:
                yield from self._within(value)
            else:
                yield one.arg, self._value(one.value)

    def _within(self, node: ast.expr | None) -> Iterator[tuple[str, Any]]:
        """The entries of a dict, or the keywords of ``dict()`` or ``GenerationConfig()``."""
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(name := literal(key), str):
                    yield name, self._value(value)
        elif isinstance(node, ast.Call):
            for one in node.keywords:
                if one.arg is not None:
                    yield one.arg, self._value(one.value)

    def _value(self, node: ast.expr) -> Any:
        meant = self.trained.meant(node)
        if isinstance(meant, ast.Constant):
            return meant.value
        if isinstance(meant, ast.Dict):
            return tuple(self._within(meant))
        name = dotted_name(meant) if meant is not None else ""
        owner, _, last = name.rpartition(".")
        if owner == "torch" and last in _WIDTHS:
            return last
        return Flag(last) if _ARGUMENTS.fullmatch(owner.rpartition(".")[2]) else UNKNOWN

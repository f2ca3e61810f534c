"""The shapes and counts that a script reads of parameters of which each rank has a part: they are empty then.

``deepspeed.zero.Init`` leaves a parameter with an empty tensor, and its shape in ``ds_shape``: ``free_param`` in
``deepspeed/runtime/zero/partition_parameters.py``.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import CodePlace, last_name, place
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.model_building import BuildReader
    from ds_lint.launches.trained_names import TrainedNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LISTS = ("named_parameters", "parameters")
_EMBEDDINGS = ("get_input_embeddings", "get_output_embeddings")
_SHOWS = re.compile(r"print\w*|\w*log\w*|info|debug|warning|rank0_print")
_DEPTH = 4  # names, and attributes of a module


class ShapeRead(NamedTuple):
    """A shape, or a number of elements, that is read: its code, and whether it is only printed.

    ``is_by_build`` says that the parameters are partitioned only if the model is built so.
    """

    code: str
    place: CodePlace
    is_count: bool
    is_shown: bool
    is_by_build: bool


class ShapeReader:
    """What a module reads of partitioned parameters."""

    def __init__(self, trained: TrainedNames, builds: BuildReader) -> None:
        self.names = trained.names
        self.trained = trained
        self.builds = builds
        # The Trainer partitions a whole model when it trains, and not where it is made.
        self.is_wrapped = all(last_name(wrap.call) in ("initialize", "prepare") for wrap in trained.wraps)

    def reads(self) -> Iterator[ShapeRead]:
        """The reads, unless the script knows that parameters are partitioned."""
        if any(name.rpartition(".")[2].startswith("ds_") for name in self.names.uses if "." in name):
            return
        constants = {one.value for one in self.names.every(ast.Constant) if isinstance(one.value, str)}
        if constants & {"ds_numel", "ds_shape", "ds_id"}:
            return
        for node, model, is_count in self._candidates():
            is_built = self.builds.is_built_in_parts(model)
            is_trained = self.is_wrapped and self.trained.is_trained(model)
            if not (is_built or is_trained) or self.trained.is_gathered(node):
                continue
            if self._counts_adapters(node) if is_count else self._may_be_resized(node):
                continue
            yield ShapeRead(_text(node), place(node), is_count, self._is_shown(node), not is_trained)

    def _candidates(self) -> Iterator[tuple[ast.expr, ast.expr, bool]]:
        """Expressions that read a shape, each with the model, and whether they count elements of all parameters."""
        for call in self.names.calls:
            if dotted_name(call.func) == "sum" and call.args:
                model = self._counted(call.args[0])
                if model is not None:
                    yield call, model, True
            method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if isinstance(call.func, ast.Attribute) and method in ("numel", "size"):
                model = self._owner(call.func.value)
                if model is not None:
                    yield call, model, False
        for node in self.names.every(ast.Attribute):
            if node.attr == "shape" and isinstance(node.ctx, ast.Load):
                model = self._owner(node.value)
                if model is not None:
                    yield node, model, False

    def _counts_adapters(self, node: ast.expr) -> bool:
        """Whether a count may be that of adapters, which are added later, and are whole until the engine is there."""
        return self.trained.has_adapters and any(
            one.ifs for one in ast.walk(node) if isinstance(one, ast.comprehension)
        )

    def _may_be_resized(self, node: ast.expr) -> bool:
        """Whether embeddings may have been resized before, which are whole then."""
        resizes = [call for call in self.names.calls if last_name(call) == "resize_token_embeddings"]
        return not all(self.trained.precedes(node, call) for call in resizes)

    @staticmethod
    def _counted(node: ast.expr) -> ast.expr | None:
        """The model in ``p.numel() for p in model.parameters()``."""
        if not isinstance(node, (ast.GeneratorExp, ast.ListComp)) or len(node.generators) != 1:
            return None
        source, element = node.generators[0].iter, node.elt
        is_count = isinstance(element, ast.Call) and getattr(element.func, "attr", "") in ("nelement", "numel")
        is_all = isinstance(source, ast.Call) and getattr(source.func, "attr", "") in _LISTS and not source.args
        if not is_count or not is_all or not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute):
            return None
        return source.func.value

    def _owner(self, weight: ast.expr, depth: int = _DEPTH) -> ast.expr | None:
        """The model in ``model.lm_head.weight`` or ``model.get_input_embeddings().weight``, also through a variable."""
        if not isinstance(weight, ast.Attribute) or weight.attr != "weight":
            return None
        node: ast.expr = weight.value
        for _ in range(depth):
            if isinstance(node, ast.Call):
                is_embedding = isinstance(node.func, ast.Attribute) and node.func.attr in _EMBEDDINGS
                return node.func.value if is_embedding and isinstance(node.func, ast.Attribute) else None
            if isinstance(node, ast.Name):
                found = self.names.assignments(node.id, node)
                value = found[0].value if len(found) == 1 else None
                if isinstance(value, ast.Call) and getattr(value.func, "attr", "") in _EMBEDDINGS:
                    node = value
                    continue
                return None
            if not isinstance(node, ast.Attribute):
                return None
            if self.trained.is_trained(node.value) or isinstance(node.value, ast.Name):
                return node.value
            node = node.value
        return None

    def _is_shown(self, node: ast.AST, depth: int = _DEPTH) -> bool:
        """Whether a value is only printed."""
        below = node
        around = self.names.parents.get(below)
        while isinstance(around, (ast.BinOp, ast.FormattedValue, ast.JoinedStr, ast.keyword, ast.Tuple, ast.Subscript)):
            below = around
            around = self.names.parents.get(below)
        if isinstance(around, ast.Call) and below is not around.func:
            if _SHOWS.fullmatch(last_name(around)) is not None:
                return True
            is_text = getattr(around.func, "attr", "") == "format" or last_name(around) in ("round", "str", "int")
            return is_text and depth > 0 and self._is_shown(around, depth - 1)
        if isinstance(around, ast.Return):
            scope = self.names.places[node].scope
            calls = self.trained.calls_of(scope) if isinstance(scope, _FUNCTIONS) else []
            return depth > 0 and bool(calls) and all(self._is_shown(call, depth - 1) for call in calls)
        if (
            not isinstance(around, ast.Assign)
            or len(around.targets) != 1
            or not isinstance(around.targets[0], ast.Name)
        ):
            return isinstance(around, ast.Expr)
        target = around.targets[0]
        uses = [use for use in self.names.uses.get(target.id, []) if self.names.means_the_same(target.id, use, target)]
        return depth > 0 and all(self._is_shown(use, depth - 1) for use in uses)


def _text(node: ast.expr) -> str:
    """An expression as a person writes it: a generator that is the only argument has no brackets of its own."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.GeneratorExp):
        return f"{ast.unparse(node.func)}{ast.unparse(node.args[0])}"
    return ast.unparse(node)

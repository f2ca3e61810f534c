"""The models that a script wraps with FSDP by itself: ``FullyShardedDataParallel(...)`` and ``fully_shard(...)``.

Sources: ``torch/distributed/fsdp/fully_sharded_data_parallel.py`` and ``_fully_shard/_fully_shard.py`` beside it.
"""

from __future__ import annotations

import ast
import functools
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import ImportedNames, last_name
from ds_lint.launches.trained_names import MADE_READY, TrainedNames
from ds_lint.source.fsdp import version_of_wrapper
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.python_names import Assignment, ModuleNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension)
# Methods that return the model.
_SAME_MODEL = ("bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train", "xpu")
_DEPTH = 8


class FsdpWrap(NamedTuple):
    """A call that shards a model: by version 1, which returns a wrapper, or by version 2, which changes the model."""

    call: ast.Call
    version: int
    arguments: dict[str, ast.expr]  # by parameter; without the model
    model: ast.expr | None
    is_open: bool  # there may be further arguments

    def has(self, name: str) -> bool | None:
        """Whether a parameter is given; None if that is not known."""
        return name in self.arguments or (None if self.is_open else False)

    def written(self, name: str) -> ast.expr | ast.keyword:
        """An argument as the call has it: its keyword, or the value in its place; the call if it is not given."""
        keyword = next((one for one in self.call.keywords if one.arg == name), None)
        return keyword or self.arguments.get(name, self.call)


class FsdpReader:
    """What a script does with such models, for a release of torch whose signatures are ``positional``."""

    def __init__(self, names: ModuleNames, positional: dict[int, list[str]]) -> None:
        self.names = names
        self.imported = ImportedNames(names)
        self.trained = TrainedNames(names)
        self._positional = positional
        self.wraps = [wrap for call in names.calls if (wrap := self._wrap(call)) is not None]

    def full_name(self, node: ast.expr) -> str:
        """What an imported name stands for; empty for any other expression."""
        return self.imported.full_name(dotted_name(node))

    def called(self, call: ast.Call) -> str:
        """The full name of what is called."""
        return self.full_name(call.func)

    # ------------------------------------------------------------------------------------------------------- values

    def values(self, node: ast.expr, depth: int = _DEPTH) -> list[ast.expr] | None:
        """The expressions that a name may have its value from at a node; None if one of them does not show."""
        if not (name := dotted_name(node)) or depth == 0:
            return [node] if depth else None
        scope = self.names.places[node].scope
        found = self.names.assignments(name, node)
        if not found:
            return [node]  # imported, or never bound
        if "." in name or any(one.place.scope is not scope for one in found):
            reaching = self._set_elsewhere(found, node)
            return self._values_of(reaching, depth) if reaching else None
        parameters = _parameters(scope)
        others = [one for one in found if one.value is not None]
        if len(found) - len(others) > (name in parameters):
            return None
        before, is_certain = self._before(others, node)
        if is_certain:
            return self._values_of(before, depth)
        given = self._given(scope, name) if name in parameters else None
        if given is None:
            return None
        outside = self.values(given, depth - 1)
        inside = self._values_of(before, depth) if before else []
        return None if outside is None or inside is None else [*outside, *inside]

    def _set_elsewhere(self, found: list[Assignment], node: ast.expr) -> list[Assignment]:
        """The assignments that may reach a node from one function, as to ``self.model``; none if that is unclear."""
        scope = found[0].place.scope
        if any(one.value is None or one.place.scope is not scope for one in found):
            return []
        if "." in dotted_name(node) and self._class_of(node) is not self._class_of(found[0].value):
            return []
        if self.names.places[node].scope is scope:
            before, is_certain = self._before(found, node)
            return before if is_certain else []
        first = scope.body[0] if isinstance(scope, (ast.Module, *_FUNCTIONS)) else None
        reaching: list[Assignment] = []
        for one in sorted(found, key=lambda one: one.value.lineno if one.value is not None else 0, reverse=True):
            reaching.append(one)
            if first is not None and one.place.block == self.names.places[first].block:
                return reaching
        return []

    def _class_of(self, node: ast.AST | None) -> ast.AST | None:
        while node is not None and not isinstance(node, ast.ClassDef):
            node = self.names.parents.get(node)
        return node

    def _values_of(self, found: list[Assignment], depth: int) -> list[ast.expr] | None:
        values: list[ast.expr] = []
        for one in found:
            further = self.values(one.value, depth - 1) if one.value is not None else None
            if further is None:
                return None
            values += further
        return values

    def _before(self, found: list[Assignment], node: ast.AST) -> tuple[list[Assignment], bool]:
        """The assignments that may reach a node, and whether one of them certainly runs before it."""
        statement = self.names.statement(node)
        here = statement.lineno, statement.col_offset
        blocks = {self.names.places[one].block for one in self.around(node)} | {self.names.places[node].block}
        reaching: list[Assignment] = []
        for one in sorted(found, key=lambda one: one.value.lineno if one.value is not None else 0, reverse=True):
            assert one.value is not None  # noqa: S101 - see values
            own = self.names.statement(one.value)
            if (own.lineno, own.col_offset) >= here:
                continue
            reaching.append(one)
            if one.place.block in blocks or self._is_in_each_branch(own, reaching, blocks):
                return reaching, True
        return reaching, False

    def _is_in_each_branch(self, statement: ast.stmt, reaching: list[Assignment], blocks: set[int]) -> bool:
        """Whether an ``if`` that certainly runs before a node has one of the assignments in both of its parts."""
        branch = self.names.parents.get(statement)
        if not isinstance(branch, ast.If) or self.names.places[branch].block not in blocks:
            return False
        own = [self.names.statement(one.value) for one in reaching if one.value is not None]
        return all(any(one in part for one in own) for part in (branch.body, branch.orelse))

    def only(self, node: ast.expr | None) -> ast.expr | None:
        """The only expression that a name has its value from; None if there are others or it does not show."""
        found = self.values(node) if node is not None else None
        return found[0] if found is not None and len(found) == 1 else None

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """What a node stands in, from the inside out, up to its function."""
        while (above := self.names.parents.get(node)) is not None and not isinstance(above, (*_FUNCTIONS, ast.Lambda)):
            yield above
            node = above

    def is_repeated(self, node: ast.AST) -> bool:
        """Whether a loop or a comprehension around a node runs it several times."""
        return any(isinstance(one, (*_LOOPS, ast.ListComp, ast.GeneratorExp)) for one in self.around(node))

    def _given(self, scope: ast.AST, name: str) -> ast.expr | None:
        """What the only call of a function gives a parameter."""
        calls = self.trained.calls_of(scope) if isinstance(scope, _FUNCTIONS) else []
        if len(calls) != 1:
            return None
        order = _parameters(scope)
        offset = int(order[:1] == ["self"])
        return self.trained.argument(calls[0], name, order.index(name) - offset)

    # ------------------------------------------------------------------------------------------------------- models

    def origins(self, node: ast.expr, depth: int = _DEPTH) -> list[ast.expr] | None:
        """What makes the model that an expression is, without what returns the same model."""
        found = self.values(node, depth)
        if found is None or depth == 0:
            return None
        made: list[ast.expr] = []
        for one in found:
            below = self._same(one)
            further = self.origins(below, depth - 1) if below is not None else [one]
            if further is None:
                return None
            made += further
        return made

    def _same(self, node: ast.expr) -> ast.expr | None:
        """The model inside of an expression that is the same model; None if it is none."""
        if not isinstance(node, ast.Call):
            return None
        if isinstance(node.func, ast.Attribute) and node.func.attr in _SAME_MODEL and not self.called(node):
            return node.func.value
        if last_name(node) in MADE_READY and node.args:
            return node.args[0]
        functions = self.names.functions.get(dotted_name(node.func), [])
        if len(functions) == 1 and not functions[0].decorator_list:
            returns = [one for one in ast.walk(functions[0]) if isinstance(one, ast.Return)]
            own = [one for one in returns if self.names.places[one].scope is functions[0]]
            return own[0].value if len(own) == 1 else None
        return None

    def wrap_of(self, node: ast.expr) -> FsdpWrap | None:
        """The call that has sharded the model that an expression is; None if it is not known to be sharded."""
        made = self.origins(node)
        if made and all(one is made[0] for one in made):
            for wrap in self.wraps:
                if wrap.call is made[0]:
                    return wrap
        return self._changed(node)

    def _changed(self, node: ast.expr) -> FsdpWrap | None:
        """The last call of version 2 that has changed a model in place, by the name of both."""
        name = dotted_name(node)
        found = [
            wrap
            for wrap in self.wraps
            if wrap.version != 1
            and name
            and wrap.model is not None
            and dotted_name(wrap.model) == name
            and self.names.means_the_same(name, wrap.model, node)
            and self.names.places[wrap.model].scope is self.names.places[node].scope
            and self.trained.precedes(wrap.call, node)
        ]
        if not found:
            return None
        last = found[-1]
        later = [
            one
            for one in self.names.assignments(name, node)
            if one.value is None or (one.value is not last.call and one.value.lineno > last.call.lineno)
        ]
        return last if not [one for one in later if one.value is not None] else None

    # -------------------------------------------------------------------------------------------------------- calls

    def _wrap(self, call: ast.Call) -> FsdpWrap | None:
        version = version_of_wrapper(self.called(call))
        if version is None:
            return None
        arguments, is_open = self.bound(call, self._positional.get(version, []))
        model = arguments.pop("module", None)
        return FsdpWrap(call, version, arguments, model, is_open)

    def bound(self, call: ast.Call, parameters: list[str]) -> tuple[dict[str, ast.expr], bool]:
        """The arguments of a call by parameter, and whether there may be others, as with ``**`` of an unknown dict."""
        arguments: dict[str, ast.expr] = {}
        is_open = False
        for number, given in enumerate(call.args):
            if isinstance(given, ast.Starred) or number >= len(parameters):
                is_open = True
                break
            arguments[parameters[number]] = given
        for one in call.keywords:
            if one.arg is not None:
                arguments[one.arg] = one.value
                continue
            written = self._written(one.value)
            is_open |= written is None
            arguments |= written or {}
        return arguments, is_open

    def _written(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """The keywords in a dict that is written out and that nothing changes afterwards; None for any other."""
        value = self.only(node)
        name = dotted_name(node)
        if name:
            stores = [one for one in self.names.every(ast.Subscript) if dotted_name(one.value) == name]
            if stores or len(self.names.uses.get(name, [])) > 1:
                return None
        if isinstance(value, ast.Dict) and all(isinstance(key, ast.Constant) for key in value.keys):
            return {
                str(key.value): item
                for key, item in zip(value.keys, value.values, strict=True)
                if isinstance(key, ast.Constant)
            }
        if isinstance(value, ast.Call) and dotted_name(value.func) == "dict" and not value.args:
            return (
                {one.arg: one.value for one in value.keywords if one.arg}
                if all(one.arg for one in value.keywords)
                else None
            )
        return None

    @functools.cached_property
    def is_wrapped_elsewhere(self) -> bool:
        """Whether the script may wrap parts of a model: the wrapper is handed on, or a helper wraps them."""
        helpers = ("wrap", "enable_wrap", "apply_fsdp", "always_wrap")
        for name, uses in self.names.uses.items():
            full = self.imported.full_name(name)
            if version_of_wrapper(full) is not None and not all(self._is_plain_use(use) for use in uses):
                return True
            if full.startswith("torch.distributed.") and full.rpartition(".")[2] in helpers:
                return True
        return False

    def _is_plain_use(self, use: ast.expr) -> bool:
        """Whether a use of the wrapper's name neither hands it on nor gives it another name."""
        parent = self.names.parents.get(use)
        if isinstance(parent, ast.Call):
            return parent.func is use or dotted_name(parent.func) in ("isinstance", "issubclass")
        if isinstance(parent, (ast.Attribute, ast.arg, ast.AnnAssign, ast.BinOp, ast.Subscript)):
            return True
        above = self.names.parents.get(parent) if isinstance(parent, ast.Tuple) else None
        return isinstance(above, ast.Call) and dotted_name(above.func) == "isinstance"


def _parameters(scope: ast.AST) -> list[str]:
    """The parameters of a function by position, and those by name behind them."""
    arguments = scope.args if isinstance(scope, _FUNCTIONS) else None
    if arguments is None:
        return []
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]

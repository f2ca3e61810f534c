"""The config that a script hands to ``HfDeepSpeedConfig`` or ``zero.Init``: its file, and the sizes set in Python.

A script that reads a JSON file and changes what it read hands over another config than the file has.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.script_code import last_name, literal
from ds_lint.source.python_names import ModuleNames, dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.trained_names import TrainedNames

SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_READERS = ("json.load", "json.loads", "hjson.load", "hjson.loads")
# Calls that leave a dict that they are given as it is.
_LEAVES_ALONE = ("HfDeepSpeedConfig", "Init", "dump", "dumps", "get", "initialize", "items", "keys", "len", "print")
_WORLD_SIZE = ("os.environ.get", "os.getenv")
_DEPTH = 6  # names that lead to each other


class BatchSize(NamedTuple):
    """A size: a number, and whether it is times the world size."""

    number: int
    is_times_ranks: bool

    def on(self, ranks: int) -> int:
        """The size on so many ranks."""
        return self.number * (ranks if self.is_times_ranks else 1)


class EarlyConfig(NamedTuple):
    """``path`` is the file, None if none is written out; ``sizes`` are those that Python sets, None if computed.

    ``is_known`` says that nothing else may have changed the sizes of the file.
    """

    path: str | None
    sizes: tuple[tuple[str, BatchSize | None], ...] = ()
    is_known: bool = True


class EarlyConfigReader:
    """What the argument of such a call is."""

    def __init__(self, names: ModuleNames, trained: TrainedNames) -> None:
        self.names = names
        self.trained = trained

    def read(self, given: ast.expr | None) -> EarlyConfig:
        """The config that an expression is."""
        path = literal(given)
        if isinstance(path, str):
            return EarlyConfig(path)
        if isinstance(given, ast.Dict):
            return EarlyConfig(None, tuple(self._sizes_of(given)))
        name = dotted_name(given) if given is not None else ""
        found = self.names.assignments(name, given) if given is not None and name else []
        if given is None or not found or isinstance(found[0].value, (ast.Constant, ast.Name, type(None))):
            return EarlyConfig(self._text(given), is_known=len(found) < 2)
        value = found[0].value
        if len(found) > 1:
            return EarlyConfig(None, is_known=False)
        sizes: dict[str, BatchSize | None] = {}
        path = None
        if isinstance(value, ast.Dict):
            sizes.update(self._sizes_of(value))
        elif isinstance(value, ast.Call) and dotted_name(value.func) in _READERS:
            path = self._file(value)
        else:
            return EarlyConfig(None, is_known=False)
        is_known = self._follow(name, given, sizes)
        return EarlyConfig(path, tuple(sizes.items()), is_known)

    # ------------------------------------------------------------------------------------------------------- changes

    def _sizes_of(self, written: ast.Dict) -> Iterator[tuple[str, BatchSize | None]]:
        for key, value in zip(written.keys, written.values, strict=True):
            name = literal(key)
            if name in SIZES:
                yield name, self._size(value)

    def _follow(self, name: str, given: ast.expr, sizes: dict[str, BatchSize | None]) -> bool:
        """Put in what statements before a node set; whether nothing else may have changed the dict."""
        for use in self.names.uses.get(name, []):
            if not self.names.means_the_same(name, use, given) or use.lineno > given.lineno or use is given:
                continue
            around = self.names.parents.get(use)
            if isinstance(around, ast.Subscript) and around.value is use:
                statement = self.names.parents.get(around)
                key = literal(around.slice)
                if isinstance(around.ctx, ast.Load):
                    continue
                if not isinstance(key, str):
                    return False
                if key in SIZES:
                    is_set = isinstance(statement, ast.Assign) and self.trained.precedes(statement, given)
                    sizes[key] = self._size(statement.value) if is_set and isinstance(statement, ast.Assign) else None
            elif isinstance(around, ast.Attribute) and around.attr == "update":
                call = self.names.parents.get(around)
                one = call.args[0] if isinstance(call, ast.Call) and len(call.args) == 1 else None
                if not isinstance(one, ast.Dict) or call is None or not self.trained.precedes(call, given):
                    return False
                sizes.update(self._sizes_of(one))
            elif not self._leaves_alone(around):
                return False
        return True

    def _leaves_alone(self, around: ast.AST | None) -> bool:
        if isinstance(around, (ast.keyword, ast.Attribute)):
            around = self.names.parents.get(around)
        if isinstance(around, ast.Call):
            return last_name(around) in _LEAVES_ALONE
        return isinstance(around, (ast.Compare, ast.FormattedValue))

    # -------------------------------------------------------------------------------------------------------- values

    def _size(self, node: ast.expr, depth: int = _DEPTH) -> BatchSize | None:
        """A size that shows; None if it is computed."""
        value = literal(node)
        if type(value) is int:
            return BatchSize(value, is_times_ranks=False)
        if depth == 0:
            return None
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            left, right = self._size(node.left, depth - 1), self._size(node.right, depth - 1)
            if left is None or right is None or (left.is_times_ranks and right.is_times_ranks):
                return None
            return BatchSize(left.number * right.number, left.is_times_ranks or right.is_times_ranks)
        if isinstance(node, ast.Name):
            meant = self._assigned(node)
            return self._size(meant, depth - 1) if meant is not None else None
        return BatchSize(1, is_times_ranks=True) if _is_world_size(node) else None

    def _assigned(self, node: ast.Name) -> ast.expr | None:
        """The value of a variable that is assigned once, also as one of several in a statement."""
        found = self.names.assignments(node.id, node)
        if len(found) != 1:
            return None
        if found[0].value is not None:
            return found[0].value
        for statement in self.names.every(ast.Assign):
            target, value = statement.targets[0], statement.value
            if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
                continue
            if len(target.elts) != len(value.elts) or self.names.places[statement].scope is not found[0].place.scope:
                continue
            for one, given in zip(target.elts, value.elts, strict=True):
                if isinstance(one, ast.Name) and one.id == node.id:
                    return given
        return None

    def _file(self, call: ast.Call) -> str | None:
        """The path of the file that a call reads, of ``json.load(open(path))`` or in a ``with`` statement."""
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Call) and last_name(given) == "read" and isinstance(given.func, ast.Attribute):
            given = given.func.value
        if isinstance(given, ast.Name):
            scope = self.names.places[given].scope
            opened = [
                item.context_expr
                for node in self.names.every(ast.With)
                for item in node.items
                if isinstance(item.optional_vars, ast.Name)
                and item.optional_vars.id == given.id
                and self.names.places[node].scope is scope
            ]
            given = opened[0] if len(opened) == 1 else None
        if isinstance(given, ast.Call) and dotted_name(given.func) == "open" and given.args:
            return self._text(given.args[0])
        return None

    def _text(self, node: ast.expr | None, depth: int = _DEPTH) -> str | None:
        """A text that shows: a constant, a variable that is one, or what the only call of a function gives it."""
        value = literal(node)
        if isinstance(value, str) or not isinstance(node, ast.Name) or depth == 0:
            return value if isinstance(value, str) else None
        scope = self.names.places[node].scope
        if isinstance(scope, _FUNCTIONS) and node.id in (order := [one.arg for one in scope.args.args]):
            calls = self.trained.calls_of(scope)
            given = self.trained.argument(calls[0], node.id, order.index(node.id)) if len(calls) == 1 else None
            return self._text(given, depth - 1)
        return self._text(self._assigned(node), depth - 1)


def _is_world_size(node: ast.expr) -> bool:
    """Whether an expression is the number of ranks, as the environment or torch.distributed tells it."""
    while isinstance(node, ast.Call) and dotted_name(node.func) == "int" and len(node.args) == 1:
        node = node.args[0]
    if isinstance(node, ast.Subscript):
        return dotted_name(node.value) == "os.environ" and literal(node.slice) == "WORLD_SIZE"
    if not isinstance(node, ast.Call):
        return False
    if dotted_name(node.func) in _WORLD_SIZE:
        return bool(node.args) and literal(node.args[0]) == "WORLD_SIZE"
    return dotted_name(node.func).endswith(("dist.get_world_size", "distributed.get_world_size"))

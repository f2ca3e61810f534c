"""Which parts of a module may say something of a config: nothing else of what may run or not is evaluated."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ENDS = ("Accelerator", "Arguments", "Config", "Fabric", "Plugin", "Strategy", "Trainer")
_CALLS = frozenset({"initialize", "dump", "exec", "eval", "setattr", "globals", "locals"})
_KEYS = ("zero_optimi", "train_micro_batch", "train_batch_size", "wall_clock_breakdown", "fp16", "bf16")
_CHANGING = frozenset({
    "append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "sort", "update", "__setitem__",
    "add", "discard", "reverse",
})  # fmt: skip
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class Summary(NamedTuple):
    """What statements have in them."""

    is_relevant: bool  # a call or key of a config
    read: frozenset[str]  # variables
    bound: frozenset[str]  # variables
    written: frozenset[str]  # variables declared global, attributes, and what an item or a method changes
    mentioned: frozenset[str]  # variables and attributes
    has_return: bool
    size: int  # in nodes


def summary(node: ast.AST, statements: Iterable[ast.AST], part: str) -> Summary:
    """The summary of a part of a node, which is made once."""
    kept: dict[str, Summary] = node.__dict__.setdefault("_summaries", {})
    if part not in kept:
        kept[part] = _summary(statements)
    return kept[part]


def _summary(statements: Iterable[ast.AST]) -> Summary:  # noqa: PLR0912 - one for each kind
    read: set[str] = set()
    bound: set[str] = set()
    written: set[str] = set()
    mentioned: set[str] = set()
    is_relevant = has_return = False
    size = 0
    pending = list(statements)
    while pending:
        node = pending.pop()
        size += 1
        kind = node.__class__
        if kind is ast.Name:
            assert isinstance(node, ast.Name)  # noqa: S101
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
            mentioned.add(node.id)
        elif isinstance(node, ast.Attribute):
            mentioned.add(node.attr)
            if not isinstance(node.ctx, ast.Load):
                written.add(node.attr)
        elif isinstance(node, ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                written.add(_last(node.value))
        elif isinstance(node, ast.Call):
            name = _last(node.func)
            is_relevant |= name in _CALLS or name.endswith(_ENDS)
            if name in _CHANGING and isinstance(node.func, ast.Attribute):
                written.add(_last(node.func.value))
        elif isinstance(node, ast.Constant):
            is_relevant |= isinstance(node.value, str) and node.value.startswith(_KEYS)
        elif isinstance(node, ast.keyword):
            is_relevant |= node.arg is not None and node.arg.startswith(_KEYS)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            written.update(node.names)
            bound.update(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
        ):
            bound.add(node.name)
        elif isinstance(node, (ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom)):
            has_return |= not isinstance(node, (ast.Raise, ast.Yield, ast.YieldFrom))
        elif isinstance(node, ast.AugAssign):
            written.add(_last(node.target))
        pending.extend(ast.iter_child_nodes(node))
    return Summary(
        is_relevant, frozenset(read), frozenset(bound), frozenset(written), frozenset(mentioned), has_return, size
    )


def _last(node: ast.expr) -> str:
    while isinstance(node, (ast.Subscript, ast.Call)):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Relevance:
    """Which functions of a module may say something of a config."""

    def __init__(self, module: ast.Module) -> None:
        self.interesting: set[str] = set()
        functions: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        functions += [node for node in ast.walk(module) if isinstance(node, _FUNCTIONS)]
        summaries = {one: summary(one, [one], "all") for one in functions}
        units = [(one.name, own) for one, own in summaries.items()]
        for statement in _outside(module):
            own = summary(statement, [statement], "all")
            units += [(name, own) for name in own.bound] or [("", own)]
        pending = units
        found = True
        while found:  # what those mention that say something, and those that write it
            found, left = False, []
            for name, own in pending:
                if own.is_relevant or name in self.interesting or own.written & self.interesting:
                    self.interesting |= own.mentioned
                    found = True
                else:
                    left.append((name, own))
            pending = left
        self.chosen = {one for one, own in summaries.items() if own.is_relevant or own.written & self.interesting}
        names = {one.name for one in self.chosen}
        found = True
        while found:  # and those that call them
            found = False
            for one, own in summaries.items():
                if one not in self.chosen and own.mentioned & names:
                    self.chosen.add(one)
                    found |= one.name not in names
                    names.add(one.name)

        writers = {one for one, own in summaries.items() if own.written or own.is_relevant}
        names = {one.name for one in writers}
        found = True
        while found:
            found = False
            for one, own in summaries.items():
                if one not in writers and own.mentioned & names:
                    writers.add(one)
                    found |= one.name not in names
                    names.add(one.name)
        self._silent = summaries.keys() - writers

    def writes(self, node: ast.AST) -> bool:
        """Whether a function may change anything but its own variables, or call what may."""
        return node not in self._silent

    def may_matter(self, node: ast.AST) -> bool:
        """Whether a function may."""
        return node in self.chosen


def _outside(module: ast.Module) -> Iterator[ast.stmt]:
    """The statements that are in no function, those in classes and blocks one by one."""
    pending: list[ast.AST] = [*module.body]
    while pending:
        node = pending.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        inner = [child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.ExceptHandler))]
        if isinstance(node, (ast.If, ast.ClassDef, ast.Try, ast.With, ast.ExceptHandler)):
            pending += inner
        elif isinstance(node, ast.stmt):
            yield node

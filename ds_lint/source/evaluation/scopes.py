"""Which names a function or a comprehension binds."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def names_of(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names that a function binds, those that it declares global, and those that it declares nonlocal."""
    bound: set[str] = set()
    of_module: set[str] = set()
    of_others: set[str] = set()
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None:
            bound.add(argument.arg)
    body = function.body if isinstance(function.body, list) else [function.body]
    for node in _inside(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.Global):
            of_module.update(node.names)
        elif isinstance(node, ast.Nonlocal):
            of_others.update(node.names)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif (isinstance(node, ast.ExceptHandler) and node.name) or (
            isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name
        ):
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
    return frozenset(bound - of_module - of_others), frozenset(of_module), frozenset(of_others)


def bound_names(generators: list[ast.comprehension]) -> frozenset[str]:
    """The names that a comprehension binds."""
    return frozenset(node.id for one in generators for node in ast.walk(one.target) if isinstance(node, ast.Name))


def generates(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a call of a function makes a generator."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in _inside(function.body))


def _inside(nodes: list[ast.stmt] | list[ast.expr]) -> Iterator[ast.AST]:
    """The nodes below some, those in other functions and classes left out, but not in the walrus of a comprehension."""
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            pending += node.decorator_list
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, _SCOPES):
            for child in ast.walk(node):
                if isinstance(child, ast.NamedExpr):
                    yield child.target
        else:
            pending += ast.iter_child_nodes(node)

"""Syntax trees in fewer forms: what Python can say in two ways, an extractor has to know in one.

``x: T = value`` in a function is ``x = value``, and ``match`` is a chain of ``if``. In a class, annotations are what
tells its fields.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeVar

    Tree = TypeVar("Tree", bound=ast.AST)


def simplified(tree: Tree) -> Tree:
    """The same tree, changed in place."""
    return _Simplified().visit(tree)  # type: ignore[no-any-return]


class _Simplified(ast.NodeTransformer):
    def __init__(self) -> None:
        self._is_in_function = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._within(node, is_function=True)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._within(node, is_function=True)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._within(node, is_function=False)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if not self._is_in_function or node.value is None:
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            chain = _as_if(node, case, chain)
        return chain

    def _within(self, node: ast.AST, *, is_function: bool) -> ast.AST:
        before, self._is_in_function = self._is_in_function, is_function
        self.generic_visit(node)
        self._is_in_function = before
        return node


def _as_if(match: ast.Match, case: ast.match_case, otherwise: list[ast.stmt]) -> list[ast.stmt]:
    """One case and those after it; what the pattern calls the subject is assigned to that name."""
    pattern, tests = case.pattern, list[ast.expr]()
    whole = pattern.name if isinstance(pattern, ast.MatchAs) else None
    if isinstance(pattern, ast.MatchAs):
        tests += [_test(match.subject, pattern.pattern)] if pattern.pattern is not None else []
    else:
        tests.append(_test(match.subject, pattern))
    tests += [case.guard] if case.guard is not None else []
    parts = {name: ast.Name(ast.unparse(pattern), ast.Load()) for name in _captured(pattern) if name != whole}
    captured: dict[str, ast.expr] = {**parts, **({whole: match.subject} if whole is not None else {})}
    body = [*(ast.Assign([ast.Name(name, ast.Store())], value) for name, value in captured.items()), *case.body]
    if tests:
        body = [ast.If(tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests), body, otherwise)]
    return [ast.fix_missing_locations(one if hasattr(one, "lineno") else ast.copy_location(one, match)) for one in body]


def _captured(pattern: ast.pattern) -> Iterator[str]:
    """The names that a pattern assigns to."""
    for part in ast.walk(pattern):
        name = part.rest if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)
        if isinstance(name, str):
            yield name


def _test(subject: ast.expr, pattern: ast.pattern) -> ast.expr:
    """When a subject has a pattern; one that takes it apart reads "subject is pattern"."""
    if isinstance(pattern, ast.MatchValue):
        return ast.Compare(subject, [ast.Eq()], [pattern.value])
    if isinstance(pattern, ast.MatchSingleton):
        return ast.Compare(subject, [ast.Is()], [ast.Constant(pattern.value)])
    if isinstance(pattern, ast.MatchOr):
        values = [one.value for one in pattern.patterns if isinstance(one, ast.MatchValue)]
        if len(values) == len(pattern.patterns):
            return ast.Compare(subject, [ast.In()], [ast.List(values, ast.Load())])
        return ast.BoolOp(ast.Or(), [_test(subject, one) for one in pattern.patterns])
    return ast.Compare(subject, [ast.Is()], [ast.Name(ast.unparse(pattern), ast.Load())])

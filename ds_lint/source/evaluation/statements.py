"""Statements, one function for each kind."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation.assignments import run_annotated, run_assignment, run_augmented, run_deletion
from ds_lint.source.evaluation.branches import fork, pass_over, resume, run_branch
from ds_lint.source.evaluation.class_bodies import run_class
from ds_lint.source.evaluation.exceptions import run_raise, run_try, run_with
from ds_lint.source.evaluation.frames import BREAK, CONTINUE, NEXT, RETURN
from ds_lint.source.evaluation.functions import run_definition
from ds_lint.source.evaluation.loops import run_for, run_while
from ds_lint.source.evaluation.matching import run_match
from ds_lint.source.evaluation.names import bind, run_import, run_import_from
from ds_lint.source.evaluation.values import Known, ModuleError, NotKnown, Slot, Undecided

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.evaluator import Evaluator


def block(run: Evaluator, statements: list[ast.stmt]) -> str:
    """Run statements, up to one that leaves them; what becomes of it."""
    for statement in statements:
        completion = _statement(run, statement)
        if completion != NEXT:
            return completion
    return NEXT


def _statement(run: Evaluator, node: ast.stmt) -> str:
    run.step()
    try:
        result = _RUN.get(type(node), _unknown)(run, node)
    except NotKnown:  # of what is assigned to
        run.risk()
        return NEXT
    return result or NEXT


def _unknown(run: Evaluator, node: ast.stmt) -> str:
    """A statement that is not evaluated: what it binds is unknown."""
    for child in ast.walk(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            bind(run, child.id, Slot(Undecided(child), child))
    return NEXT


def _expression(run: Evaluator, node: ast.Expr) -> None:
    run.evaluate(node.value)


def _nothing(run: Evaluator, node: ast.Pass | ast.Global | ast.Nonlocal) -> None:
    pass


def _assert(run: Evaluator, node: ast.Assert) -> None:
    if run.truth(run.evaluate(node.test)) is False:
        raise ModuleError(AssertionError)
    run.risk()


def _if(run: Evaluator, node: ast.If) -> str:
    test = run.truth(run.evaluate(node.test))
    if test is not None:
        return run.block(node.body if test else node.orelse)
    if pass_over(run, node, [*node.body, *node.orelse]):
        return NEXT
    return resume(run, [fork(run, lambda: run_branch(run, node.body)), fork(run, lambda: run_branch(run, node.orelse))])


def _return(run: Evaluator, node: ast.Return) -> str:
    run.frame.result = Known(None, node) if node.value is None else run.evaluate(node.value)
    return RETURN


def _break(_run: Evaluator, _node: ast.Break) -> str:
    return BREAK


def _continue(_run: Evaluator, _node: ast.Continue) -> str:
    return CONTINUE


_RUN: dict[type[ast.stmt], Callable[[Evaluator, Any], str | None]] = {
    ast.AnnAssign: run_annotated,
    ast.Assert: _assert,
    ast.Assign: run_assignment,
    ast.AsyncFor: run_for,
    ast.AsyncFunctionDef: run_definition,
    ast.AsyncWith: run_with,
    ast.AugAssign: run_augmented,
    ast.Break: _break,
    ast.ClassDef: run_class,
    ast.Continue: _continue,
    ast.Delete: run_deletion,
    ast.Expr: _expression,
    ast.For: run_for,
    ast.FunctionDef: run_definition,
    ast.Global: _nothing,  # see ``names_of``
    ast.If: _if,
    ast.Import: run_import,
    ast.ImportFrom: run_import_from,
    ast.Match: run_match,
    ast.Nonlocal: _nothing,
    ast.Pass: _nothing,
    ast.Raise: run_raise,
    ast.Return: _return,
    ast.Try: run_try,
    ast.While: run_while,
    ast.With: run_with,
}
if sys.version_info >= (3, 11):
    _RUN[ast.TryStar] = run_try

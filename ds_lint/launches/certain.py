"""What certainly runs if a script does: code of the module, and of functions that such code calls."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds_lint.source.python_names import ModuleNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEPTH = 20  # functions that call each other


def certainly_runs(names: ModuleNames, node: ast.AST, depth: int = _DEPTH) -> bool:
    """Whether a node runs if the script does."""
    while (around := names.parents.get(node)) is not None:
        if isinstance(around, (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ExceptHandler, ast.Match, ast.ClassDef)):
            return False
        if isinstance(around, ast.If) and node is not around.test and not is_main(around.test):
            return False
        if isinstance(around, ast.If) and node in around.orelse:
            return False
        if isinstance(around, _FUNCTIONS):
            calls = [use for use in names.uses.get(around.name, []) if is_called(names, use)]
            return depth > 0 and any(certainly_runs(names, call, depth - 1) for call in calls)
        node = around
    return True


def is_called(names: ModuleNames, use: ast.expr) -> bool:
    """Whether a name is what a call calls."""
    parent = names.parents.get(use)
    return isinstance(parent, ast.Call) and parent.func is use


def is_main(test: ast.expr) -> bool:
    """Whether a condition holds in the script that is started."""
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")

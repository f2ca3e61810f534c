"""The constants that a module of an installed package assigns, read and never run."""

from __future__ import annotations

import ast
from typing import Any

from ds_lint.targets.text import text_of


def assignments(path: str) -> dict[str, Any]:
    """The constants by name; none if there is no such file, or Python does not parse it."""
    return constants(module(path))


def module(path: str) -> ast.Module:
    """The tree of a module; empty if there is no such file, or Python does not parse it."""
    try:
        return ast.parse(text_of(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ast.Module([], [])


def constants(tree: ast.Module | ast.ClassDef) -> dict[str, Any]:
    """The constants that the body of a module or class assigns."""
    found: dict[str, Any] = {}
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        names = [target.id for target in targets if isinstance(target, ast.Name)]
        if not names or value is None:
            continue
        try:
            constant = ast.literal_eval(value)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            continue
        found.update(dict.fromkeys(names, constant))
    return found

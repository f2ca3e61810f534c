"""The files of data that a script loads into a dict: which call loads which path."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.launches.script_code import last_name
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.source.python_names import ModuleNames

FILE = "FILE"  # as a function, for what a file has: of its path, and the folder of the script
_OF_TEXTS = ("json.load", "json.loads", "yaml.full_load", "yaml.load", "yaml.safe_load")
_OF_PATHS = ("OmegaConf.load",)
_CHANGES = ("clear", "pop", "popitem", "setdefault", "update")


def loaded_path(call: ast.Call, names: ModuleNames) -> ast.expr | None:
    """The path of the file that a call loads; None if it loads none, or it does not show which."""
    if not call.args:
        return None
    if dotted_name(call.func) in _OF_PATHS:
        return call.args[0]
    if dotted_name(call.func) not in _OF_TEXTS:
        return None
    given = call.args[0]
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "read":
        given = given.func.value
    if isinstance(given, ast.Name):
        entered = [
            item.context_expr
            for block in names.every(ast.With)
            for item in block.items
            if isinstance(item.optional_vars, ast.Name) and item.optional_vars.id == given.id
            if given in ast.walk(block)
        ]
        given = entered[-1] if entered else given
    if isinstance(given, ast.Call) and last_name(given) == "open" and dotted_name(given.func) and given.args:
        return given.args[0]
    return None


def is_changed(name: str, names: ModuleNames) -> bool:
    """Whether a script changes a dict that a variable has, by its name."""
    for use in names.uses.get(name, ()):
        parent = names.parents[use]
        around = names.parents.get(parent)
        while isinstance(parent, ast.Subscript) and isinstance(around, ast.Subscript) and around.value is parent:
            parent, around = around, names.parents.get(around)
        if isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load):
            return True
        if isinstance(parent, ast.Attribute) and (parent.attr in _CHANGES or not isinstance(parent.ctx, ast.Load)):
            return True
        if isinstance(parent, ast.AugAssign):
            return True
    return False

"""The paths of files that a training script names, as far as they show: texts that are joined, or beside the script."""

from __future__ import annotations

import ast
import os
from typing import TYPE_CHECKING

from ds_lint.launches.script_values import constant
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.script_modules import ScriptModule

_DEEPEST = 16
_SAME = ("abspath", "expanduser", "fspath", "normpath", "realpath", "str")
_METHODS_OF_SAME = ("absolute", "as_posix", "expanduser", "resolve")
_PATHS = ("Path", "PurePath", "PosixPath")


def path_of(node: ast.expr | None, module: ScriptModule, depth: int = _DEEPEST) -> str | None:
    """The path that an expression is; whole if it counts from the script's own, None if it is unknown."""
    if node is None or depth == 0:
        return None
    if dotted_name(node) == "__file__":
        return os.path.abspath(module.path) if module.path else None
    if isinstance(node, ast.Name):
        found = module.names.reaching(node.id, node)
        return path_of(found.value, module, depth - 1) if found is not None else None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return _formatted(node, module, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _joined([node.left, node.right], module, depth)
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        return _parent(node.value, module, depth)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        number = node.slice.value if isinstance(node.slice, ast.Constant) else None
        path = path_of(node.value.value, module, depth - 1)
        for _ in range(number + 1 if isinstance(number, int) and number >= 0 else 0):
            path = os.path.dirname(path) if path else None
        return path if isinstance(number, int) and number >= 0 else None
    if isinstance(node, ast.Call):
        return _called(node, module, depth)
    text = constant(node, module.values)
    return text if isinstance(text, str) else None


def _called(call: ast.Call, module: ScriptModule, depth: int) -> str | None:
    name = dotted_name(call.func)
    last = name.rpartition(".")[2] or getattr(call.func, "attr", "")
    if last == "join" and (not name or name.partition(".")[0] in ("os", "osp", "path")):
        return _joined(call.args, module, depth)
    if last == "joinpath" and isinstance(call.func, ast.Attribute):
        return _joined([call.func.value, *call.args], module, depth)
    if last in _PATHS:
        return _joined(call.args, module, depth)
    if last == "dirname" and len(call.args) == 1:
        return _parent(call.args[0], module, depth)
    if last in _SAME and len(call.args) == 1:
        return path_of(call.args[0], module, depth - 1)
    if last in _METHODS_OF_SAME and not call.args and isinstance(call.func, ast.Attribute):
        return path_of(call.func.value, module, depth - 1)
    text = constant(call, module.values)
    return text if isinstance(text, str) else None


def _joined(parts: list[ast.expr], module: ScriptModule, depth: int) -> str | None:
    found = [path_of(part, module, depth - 1) for part in parts]
    known = [part for part in found if part is not None]
    return os.path.normpath(os.path.join(*known)) if known and len(known) == len(found) else None


def _formatted(node: ast.JoinedStr, module: ScriptModule, depth: int) -> str | None:
    """An f-string of texts and numbers."""
    found = []
    for part in node.values:
        value = part.value if isinstance(part, ast.FormattedValue) else part
        is_plain = not isinstance(part, ast.FormattedValue) or (part.conversion == -1 and part.format_spec is None)
        text = path_of(value, module, depth - 1)
        if text is None:
            number = constant(value, module.values)
            text = str(number) if isinstance(number, int) and not isinstance(number, bool) else None
        if text is None or not is_plain:
            return None
        found.append(text)
    return "".join(found)


def _parent(node: ast.expr, module: ScriptModule, depth: int) -> str | None:
    path = path_of(node, module, depth - 1)
    return None if path is None else os.path.dirname(path)

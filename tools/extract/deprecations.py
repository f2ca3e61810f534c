"""What a dataclass of arguments says of fields that it deprecates, and which parameters a constructor takes."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from tools.extract.history import Facts

_WARNING = re.compile(r"(?:[Uu]sing |The )?`?(?:--)?(\w+)`?(?: argument| parameter)? is deprecated\b")
_INSTEAD = re.compile(
    r"\b(?:[Uu]se|set|in favor of|replaced by|the use of) (?:the )?(`[^`]+`|\w+_\w+)(?: instead| is preferred|\W*$|,)"
)
_HELP = re.compile(r"\b[Dd]eprecated\b")


def deprecations(cls: ast.ClassDef, names: Collection[str]) -> dict[str, Facts]:
    """By field what stands in for it: ``replaced_by`` is a field with the same value, ``instead`` what is advised."""
    found: dict[str, Facts] = {}
    for name, advice in _advised(cls, names):
        field = advice.strip("`").removeprefix("--")
        if field != name and name not in found:
            found[name] = {"instead": f"`{field}`"}
    for node in ast.walk(cls):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute):
            new, old = ast.unparse(node.targets[0]).partition("."), ast.unparse(node.value).partition(".")
            if (new[0], old[0]) == ("self", "self") and old[2] in found and new[2] in names:
                found[old[2]] = {"replaced_by": new[2]}
    return found


def _advised(cls: ast.ClassDef, names: Collection[str]) -> Iterator[tuple[str, str]]:
    for node in cls.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            warned = source.metadata(node.value, "help").get("help")
            if isinstance(warned, str) and _HELP.search(warned) and (meant := _INSTEAD.search(warned)):
                yield node.target.id, meant[1]
    for call in ast.walk(cls):
        if not isinstance(call, ast.Call) or not call.args:
            continue
        if ast.unparse(call.func).rpartition(".")[2] not in ("warn", "warning", "warning_once"):
            continue
        warned = source.literal(call.args[0], {})
        about = _WARNING.match(warned) if isinstance(warned, str) else None
        meant = _INSTEAD.search(warned, about.end()) if about is not None else None
        if about is not None and meant is not None and about[1] in names:
            yield about[1], meant[1]


def constructor(cls: ast.ClassDef) -> Facts | None:
    """The ``parameters`` that a constructor takes, other names that a decorator makes of them, and whether it is open.

    None for a class that inherits its constructor.
    """
    function = next((one for one in cls.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    if function is None:
        return None
    arguments = function.args
    names = [one.arg for one in (*arguments.args[1:], *arguments.kwonlyargs)]
    renamed = dict(_renamed(function))
    return {
        "parameters": names,
        **({"renamed": renamed} if renamed else {}),
        **({"is_open": True} if arguments.kwarg is not None else {}),
    }


def _renamed(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """``@deprecate_kwarg("tokenizer", new_name="processing_class", ...)``."""
    for one in function.decorator_list:
        if isinstance(one, ast.Call) and ast.unparse(one.func).rpartition(".")[2] == "deprecate_kwarg":
            given = [ast.literal_eval(argument) for argument in one.args]
            new = source.keyword(one, "new_name")
            yield given[0], ast.literal_eval(new) if new is not None else given[2]

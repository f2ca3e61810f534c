"""The arguments that a function adds to a parser of argparse, one call of ``add_argument`` each."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tools.extract import source

if TYPE_CHECKING:
    from collections.abc import Iterator

_ADDING = ("add_argument", "add_arguments")
_OF_AN_OPTION = {"action", "choices", "const", "default", "dest", "help", "metavar", "nargs", "type"}


def added(function: source.Definition) -> Iterator[ast.Call]:
    """The calls that add an argument, by names that are written out; one that is added in another way is an error."""
    parsers = _parsers(function)
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        method = ast.unparse(call.func).rpartition(".")[2]
        if method == "add_argument" and names(call) and all(keyword.arg is not None for keyword in call.keywords):
            yield call
        elif method in _ADDING or _is_option(call) or _passed(call) & parsers:
            raise LookupError(f"{function.name} adds an argument by {source.brief(call)}")


def names(call: ast.Call) -> list[str]:
    """The names that an argument is added by; none if one of them is not written out."""
    texts = [source.literal(one, {}) for one in call.args]
    return texts if all(isinstance(one, str) for one in texts) else []


def _parsers(function: source.Definition) -> set[str]:
    """The parsers and groups that a function makes."""
    return {
        ast.unparse(node.targets[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func).endswith(("Parser", "add_parser", "_group"))
    }


def _is_option(call: ast.Call) -> bool:
    """Whether this looks like ``add_argument`` under another name."""
    texts = [source.literal(one, {}) for one in call.args]
    is_named = any(isinstance(one, str) and one.startswith("-") for one in texts)
    return is_named and not _OF_AN_OPTION.isdisjoint(keyword.arg or "" for keyword in call.keywords)


def _passed(call: ast.Call) -> set[str]:
    return {ast.unparse(one) for one in (*call.args, *(keyword.value for keyword in call.keywords))}

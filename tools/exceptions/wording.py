"""The text of an exception as its source builds it: literal pieces, with None for what is filled in at run time.

Messages are built with f-strings, ``format``, ``%`` and ``+``, and in variables that are assigned above. White space is
collapsed: where a line of the source breaks says nothing.
"""

from __future__ import annotations

import ast
import re
import string
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Piece = str | None
Pieces = tuple[Piece, ...]

_DIRECTIVE = re.compile(r"%(?:\(\w+\))?[-#0 +]*(?:\*|\d+)?(?:\.(?:\*|\d+))?[hlL]?([a-zA-Z%])")
_LAYOUTS = {"dedent", "cleandoc"}  # functions that only change white space
_DEEP = 5  # variables that are made of variables
_REPRESENTED = {"KeyError"}  # prints its argument as Python source


class Scope(NamedTuple):
    """Where the names of a message get their values: the function around a statement, and its module."""

    module: ast.Module
    function: ast.AST | None
    line: int


def wordings(node: ast.Raise | ast.Assert, scope: Scope) -> list[Pieces | None]:
    """The pieces of each text that a statement raises: several where it goes through a table of texts."""
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and len(node.exc.args) == 1:
        (argument,) = node.exc.args
        if isinstance(argument, ast.Name) and (table := _table(argument.id, scope)) is not None:
            return [_clean(_of(value, scope, 0)) for value in table.values]
    return [_wording(node, scope)]


def _table(name: str, scope: Scope) -> ast.Dict | None:
    """The table of the module whose items a name goes through."""
    for node in ast.walk(scope.function) if scope.function is not None else ():
        if (
            isinstance(node, ast.For)
            and node.lineno <= scope.line <= (node.end_lineno or 0)
            and isinstance(node.target, ast.Tuple)
            and isinstance(value := node.target.elts[-1], ast.Name)
            and value.id == name
            and isinstance(node.iter, ast.Call)
            and isinstance(node.iter.func, ast.Attribute)
            and isinstance(node.iter.func.value, ast.Name)
        ):
            assigned = _assigned(node.iter.func.value.id, Scope(scope.module, None, 0))
            return assigned if isinstance(assigned, ast.Dict) else None
    return None


def _wording(node: ast.Raise | ast.Assert, scope: Scope) -> Pieces | None:
    """None where the exception has no text."""
    if isinstance(node, ast.Assert):
        return _clean(_of(node.msg, scope, 0)) if node.msg is not None else None
    raised = raised_by(node, scope)
    if not isinstance(raised, ast.Call):
        return None if _is_class(raised) else (None,)
    if not raised.args:
        return (None,) if raised.keywords else None
    if len(raised.args) == 1 and not isinstance(raised.args[0], ast.Starred):
        pieces = _of(raised.args[0], scope, 0)
        name = ast.unparse(raised.func).rpartition(".")[2]
        return _clean([None, *pieces, None] if name in _REPRESENTED else pieces)
    return _clean([piece for argument in raised.args for piece in (None, *_of(argument, scope, 0), None)])


def raised_by(node: ast.Raise, scope: Scope) -> ast.expr | None:
    """The expression that is raised, also where it was given a name above."""
    raised = node.exc
    if isinstance(raised, ast.Name) and not raised.id[:1].isupper():
        assigned = _assigned(raised.id, scope)
        return assigned if isinstance(assigned, ast.Call) else raised
    return raised


def normal(text: str) -> str:
    """A text with its white space collapsed."""
    return re.sub(r"\s+", " ", text)


def _clean(pieces: Sequence[Piece]) -> Pieces:
    """Neighbours joined, white space collapsed, the ends stripped."""
    joined: list[Piece] = []
    for piece in pieces:
        if piece == "":
            continue
        if joined and (piece is None) == (joined[-1] is None):
            joined[-1] = None if piece is None else f"{joined[-1]}{piece}"
        else:
            joined.append(piece)
    found = [None if piece is None else normal(piece) for piece in joined]
    if found and found[0] is not None:
        found[0] = found[0].lstrip()
    if found and found[-1] is not None:
        found[-1] = found[-1].rstrip()
    return tuple(piece for piece in found if piece != "")


def _is_class(node: ast.expr | None) -> bool:
    """Whether what is raised is a class by its name, such as ``raise StopIteration``."""
    return node is not None and ast.unparse(node).rpartition(".")[2][:1].isupper()


def _of(node: ast.expr, scope: Scope, depth: int) -> list[Piece]:
    if isinstance(node, ast.Constant):
        return [str(node.value)]
    if isinstance(node, ast.JoinedStr):
        return [piece for part in node.values for piece in _of(part, scope, depth)]
    if isinstance(node, ast.FormattedValue):
        is_plain = node.conversion == -1 and node.format_spec is None
        return _of_name(node.value, scope, depth) if is_plain else [None]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _of(node.left, scope, depth) + _of(node.right, scope, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return [piece for part in _of(node.left, scope, depth) for piece in _around_directives(part)]
    if isinstance(node, ast.Tuple):
        return [piece for part in node.elts for piece in (None, *_of(part, scope, depth), None)]
    if isinstance(node, ast.Call):
        return _of_call(node, scope, depth)
    return _of_name(node, scope, depth)


def _of_call(node: ast.Call, scope: Scope, depth: int) -> list[Piece]:
    name = ast.unparse(node.func).rpartition(".")[2]
    if name == "format" and isinstance(node.func, ast.Attribute):
        return [piece for part in _of(node.func.value, scope, depth) for piece in _around_fields(part)]
    if name in _LAYOUTS and node.args:
        return _of(node.args[0], scope, depth)
    if isinstance(node.func, ast.Name) and depth < _DEEP:
        return _returned(node.func.id, scope, depth)
    return [None]


def _returned(name: str, scope: Scope, depth: int) -> list[Piece]:
    """The text that a function of the module returns, if it has one."""
    named = [one for one in scope.module.body if isinstance(one, ast.FunctionDef) and one.name == name]
    returns = [
        node
        for one in named
        for node in ast.walk(one)
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value)
    ]
    if len(returns) != 1 or returns[0].value is None:
        return [None]
    return _of(returns[0].value, Scope(scope.module, named[0], returns[0].lineno), depth + 1)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _of_name(node: ast.expr, scope: Scope, depth: int) -> list[Piece]:
    """The pieces of a variable: what was assigned last above the statement."""
    if not isinstance(node, ast.Name) or depth >= _DEEP:
        return [None]
    found: list[Piece] = []
    for value, is_added, line in _assignments(node.id, scope):
        pieces = _of(value, Scope(scope.module, scope.function, line), depth + 1)
        found = [*found, *pieces] if is_added else pieces
    return found or [None]


def _assigned(name: str, scope: Scope) -> ast.expr | None:
    values = [value for value, is_added, _ in _assignments(name, scope) if not is_added]
    return values[-1] if values else None


def _assignments(name: str, scope: Scope) -> Iterator[tuple[ast.expr, bool, int]]:
    """What a name was given above a line, in the function around it, else once in the module."""
    if scope.function is not None:
        found = sorted(_all_assignments(ast.walk(scope.function), name), key=lambda one: one[2])
        if above := [one for one in found if one[2] < scope.line]:
            yield from above
            return
        if found or _is_parameter(scope.function, name):
            return
    found = list(_all_assignments(iter(scope.module.body), name))
    if len(found) == 1:
        yield from found


def _all_assignments(nodes: Iterator[ast.AST], name: str) -> Iterator[tuple[ast.expr, bool, int]]:
    for node in nodes:
        if isinstance(node, ast.Assign):
            if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
                yield node.value, False, node.lineno
        elif isinstance(node, (ast.AnnAssign, ast.AugAssign)) and node.value is not None:
            if isinstance(node.target, ast.Name) and node.target.id == name:
                yield node.value, isinstance(node, ast.AugAssign), node.lineno
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and any(
            isinstance(part, ast.Name) and part.id == name for part in ast.walk(node.target)
        ):
            yield ast.Call(ast.Name("next"), [], []), False, node.iter.lineno


def _is_parameter(function: ast.AST, name: str) -> bool:
    arguments = getattr(function, "args", None)
    return isinstance(arguments, ast.arguments) and any(
        one.arg == name for one in ast.walk(arguments) if isinstance(one, ast.arg)
    )


def _around_directives(text: Piece) -> list[Piece]:
    """The pieces of a text that ``%`` fills in."""
    if text is None:
        return [None]
    found: list[Piece] = []
    place = 0
    for match in _DIRECTIVE.finditer(text):
        found += [text[place : match.start()], "%" if match[1] == "%" else None]
        place = match.end()
    return [*found, text[place:]]


def _around_fields(text: Piece) -> list[Piece]:
    """The pieces of a text that ``format`` fills in."""
    if text is None:
        return [None]
    try:
        parts = list(string.Formatter().parse(text))
    except ValueError:
        return [None]
    return [piece for literal, field, _, _ in parts for piece in (literal, None if field is not None else "")]

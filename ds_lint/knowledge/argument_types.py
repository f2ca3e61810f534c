"""What the type of a field lets through, as HfArgumentParser reads a flag and as pydantic validates a value.

Only what is certain: numbers, truth values and words from a list. Of any other type nothing is known.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_KINDS = ("bool", "float", "int")
_LISTS = ("List", "list", "Sequence")
_NONE = "None"


def reading_of(annotation: str, *, is_model: bool = False) -> dict[str, Any]:
    """``kind`` of the value, ``is_list`` if there are several, ``choices`` if it is one of these; empty if unknown.

    ``is_model`` says that pydantic validates it, which takes a value that any part of a union takes. Of ``str`` or
    something else, HfArgumentParser takes the other.
    """
    members = members_of(annotation)
    if not members:
        return {}
    if is_model:
        return _of_model([one for one in members if ast.unparse(one) != _NONE])
    part = taken(members)
    if part is None:
        return {}
    if isinstance(part, ast.Subscript) and ast.unparse(part.value).split(".")[-1] in _LISTS:
        return {**_single(part.slice), "is_list": True}
    return {"kind": "text"} if ast.unparse(part) == "str" else _single(part)


def taken(members: list[ast.expr]) -> ast.expr | None:
    """The member of a union that HfArgumentParser takes; None if it refuses the type, or that is not known.

    Source: ``_parse_dataclass_field`` in transformers/hf_argparser.py.
    """
    names = [ast.unparse(one) for one in members]
    if len(members) == 1:
        return members[0]
    if "str" not in names and (len(members) != 2 or _NONE not in names):
        return None  # which it refuses when the script starts
    if _NONE not in names:
        return members[0] if names[1] == "str" else members[1]
    if "bool" in names:
        return members[names.index("bool")] if len(members) == 2 else None
    return members[0] if names[1] == _NONE else members[1]


def _of_model(parts: list[ast.expr]) -> dict[str, Any]:
    found = [_single(part) for part in parts]
    if not found or not all(found):
        return {}
    kinds = {one.get("kind") for one in found}
    if kinds == {None}:
        return {"choices": [choice for one in found for choice in one["choices"]]}
    if len(found) == 1:
        return found[0]
    return {"kind": "float"} if kinds == {"int", "float"} else {}


def _single(part: ast.expr) -> dict[str, Any]:
    name = ast.unparse(part)
    if name in _KINDS:
        return {"kind": name}
    if isinstance(part, ast.Subscript) and ast.unparse(part.value).split(".")[-1] == "Literal":
        elements = part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]
        choices = [one.value for one in elements if isinstance(one, ast.Constant)]
        return {"choices": choices} if len(choices) == len(elements) else {}
    return {}


def members_of(annotation: str) -> list[ast.expr]:
    """The members of a union, in their order, each once; none if Python does not parse the type."""
    try:
        found = _members(ast.parse(annotation, mode="eval").body)
        return [*{ast.unparse(one): one for one in found}.values()]
    except SyntaxError:
        return []


def _members(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # a forward reference
        yield from _members(ast.parse(node.value, mode="eval").body)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from _members(node.left)
        yield from _members(node.right)
    elif isinstance(node, ast.Subscript):
        name = ast.unparse(node.value).split(".")[-1]
        elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Optional":
            yield from _members(elements[0])
            yield ast.Constant(None)
        elif name == "Union":
            for one in elements:
                yield from _members(one)
        elif name == "Annotated":
            yield from _members(elements[0])
        else:
            yield node
    else:
        yield node

"""The ``auto_wrap_policy`` of a script: which modules of a model become units of their own.

Source: ``torch/distributed/fsdp/wrap.py``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Literal, NamedTuple

from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.fsdp_models import FsdpReader, FsdpWrap

WRAP = "torch.distributed.fsdp.wrap."
ARGUMENT = "auto_wrap_policy"
_CLASSES = {"transformer_auto_wrap_policy": "transformer_layer_cls", "ModuleWrapPolicy": "module_classes"}


class WrapPolicy(NamedTuple):
    """``classes`` are the expressions of the classes to wrap, None if they do not show."""

    kind: Literal["none", "classes", "size", "unknown"]
    node: ast.expr | None = None  # of what is given
    function: str = ""  # of torch, without the module
    classes: list[ast.expr] | None = None
    given: ast.expr | None = None  # the classes as they are written
    is_bare: bool = False  # the function itself, without anything that fixes its parameters


def policy_of(wrap: FsdpWrap, reader: FsdpReader) -> WrapPolicy:
    """The policy of a wrapper of version 1."""
    written = wrap.arguments.get(ARGUMENT)
    if written is None:
        return WrapPolicy("unknown" if wrap.is_open else "none")
    node = reader.only(written)
    if isinstance(node, ast.Constant) and node.value is None:
        return WrapPolicy("none", node)
    if node is None:
        return WrapPolicy("unknown")
    if (function := _function(node, reader)) is not None:
        return _of_function(function, node, [], reader, is_bare=True)
    if not isinstance(node, ast.Call):
        return WrapPolicy("unknown", node)
    if dotted_name(node.func).rpartition(".")[2] == "partial" and node.args:
        function = _function(node.args[0], reader)
        return WrapPolicy("unknown", node) if function is None else _of_function(function, node, node.keywords, reader)
    if (function := _function(node.func, reader)) == "ModuleWrapPolicy":
        given = node.args[:1] or [one.value for one in node.keywords if one.arg == "module_classes"]
        return _of_classes(function, node, given[0] if given else None, reader)
    return WrapPolicy("unknown", node)


def _of_function(
    function: str, node: ast.expr, keywords: list[ast.keyword], reader: FsdpReader, *, is_bare: bool = False
) -> WrapPolicy:
    if function == "transformer_auto_wrap_policy":
        given = next((one.value for one in keywords if one.arg == _CLASSES[function]), None)
        is_open = any(one.arg is None for one in keywords)
        policy = _of_classes(function, node, given, reader)
        return policy._replace(is_bare=given is None and not is_open)
    if function == "size_based_auto_wrap_policy":
        return WrapPolicy("size", node, function, is_bare=is_bare)
    return WrapPolicy("unknown", node, function)


def _of_classes(function: str, node: ast.expr, given: ast.expr | None, reader: FsdpReader) -> WrapPolicy:
    value = reader.only(given) if given is not None else None
    if isinstance(value, ast.Call) and dotted_name(value.func) in ("set", "frozenset", "list", "tuple") and value.args:
        value = value.args[0]
    items = list(value.elts) if isinstance(value, (ast.Set, ast.List, ast.Tuple)) else None
    if items is not None and any(isinstance(one, ast.Starred) for one in items):
        items = None
    return WrapPolicy("classes", node, function, items, given)


def _function(node: ast.expr, reader: FsdpReader) -> str | None:
    """The function or class of torch's policies that a name stands for."""
    name = reader.full_name(node)
    return name.rpartition(".")[2] if name.startswith(("torch.distributed.fsdp.", WRAP)) else None


def is_class(node: ast.expr, reader: FsdpReader) -> bool:
    """Whether a name certainly is a class: of the module, of torch or of a model of transformers."""
    name = dotted_name(node)
    if any(one.name == name for one in reader.names.every(ast.ClassDef)):
        return not reader.names.assignments(name, node)
    full = reader.full_name(node)
    return full.startswith(("torch.nn.", "transformers.models.")) and full.rpartition(".")[2][:1].isupper()

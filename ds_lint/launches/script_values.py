"""What the expressions of a script are that a launch does not change: constants of Python, and UNKNOWN for the rest."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.python_names import dotted_name
from ds_lint.source.tree import Node, plain

if TYPE_CHECKING:
    from ds_lint.source.python_values import Values

# Enumerations of transformers whose members have their values as names, in capitals.
_ENUMERATIONS = ("IntervalStrategy", "SaveStrategy", "SchedulerType", "HubStrategy", "OptimizerNames")
# What a run alone shows: an expression with it is not worth a run of the module.
_OF_A_RUN = ("os.environ", "os.getenv", "sys.argv")


def constant(node: ast.expr | None, values: Values) -> Any:
    """The value of an expression that shows: a scalar, or a list or dict of them."""
    if node is None:
        return UNKNOWN
    if isinstance(node, ast.Attribute) and dotted_name(node.value).rpartition(".")[2] in _ENUMERATIONS:
        return node.attr.lower()
    if isinstance(node, (ast.Constant, ast.List, ast.UnaryOp)):  # as most are, and need no run of the module
        try:
            found = ast.literal_eval(node)
        except ValueError:
            found = UNKNOWN
        if all(one is None or isinstance(one, (bool, int, float, str)) for one in _items(found)):
            return found
    if any(isinstance(one, ast.Attribute) and dotted_name(one) in _OF_A_RUN for one in ast.walk(node)):
        return UNKNOWN
    value = values.value(node)
    return UNKNOWN if value.is_open else of_node(value.node)


def _items(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found]


def of_node(node: Node) -> Any:
    """The value of a node; UNKNOWN if anything in it is."""
    return plain(node) if _shows(node) else UNKNOWN


def _shows(node: Node) -> bool:
    if node.kind in ("template", "missing"):
        return False
    return all(map(_shows, node.items)) and all(_shows(member.value) for member in node.members)

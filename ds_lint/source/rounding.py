"""What hjson makes of a number that json reads in another way; every clean file asks, so it stands apart from hjson."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.tree import Node, Scalar

MOST_INTEGRAL = 1e10  # from here on a float stays one


def as_read(node: Node) -> Scalar:
    """The scalar that DeepSpeed gets from a file for a node of strict JSON: hjson makes integral floats integers."""
    value = node.value
    if isinstance(value, float) and value.is_integer() and abs(value) < MOST_INTEGRAL:
        return int(value)
    return value

"""The positioned tree every source language is read into.

Offsets count code points from the start of the decoded text; a BOM and carriage returns count.
Plain ``__slots__`` classes, because this module is on the clean path of ``check`` and dataclasses cost start-up.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Scalar = str | int | float | bool | None
    KeyPath = tuple[str, ...]  # ("zero_optimization", "stage"); an array index is an element too: ("a", "0", "b")

_MOST_DIGITS = 9  # of an index
MOST_INTEGRAL = 1e10  # from here on hjson leaves a float a float
SCALARS = {bool: "boolean", int: "integer", float: "float", str: "string", type(None): "null"}


class Span:
    """A half-open range of offsets in one text."""

    __slots__ = ("end", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Span) and (self.start, self.end) == (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"Span({self.start}, {self.end})"


class Node:
    """One value of a document.

    ``kind`` is ``object``, ``array``, ``string``, ``integer``, ``float``, ``boolean``, ``null``,
    ``template`` (a placeholder such as ``${LR}`` that is filled in before DeepSpeed sees the file) or
    ``missing`` (a value that the text lacks or that no library can read).
    ``value`` is the Python value of a scalar, and the text of a template.
    """

    __slots__ = ("_by_key", "items", "kind", "members", "span", "value")

    def __init__(
        self,
        kind: str,
        span: Span,
        value: Scalar = None,
        members: list[Member] | None = None,
        items: list[Node] | None = None,
    ) -> None:
        self.kind = kind
        self.span = span
        self.value = value
        self.members = members or []  # of an object: in the order of the text, duplicates kept
        self.items = items or []  # of an array
        self._by_key: dict[str, Member] | None = None

    def member(self, key: str) -> Member | None:
        """The member with this key; of duplicates the last, the one Python's json keeps."""
        by_key = self._by_key
        if by_key is None:
            by_key = self._by_key = {member.key: member for member in self.members}
        return by_key.get(key)

    def get(self, key: str) -> Node | None:
        """The value under ``key``, or None if there is no such key."""
        member = self.member(key)
        return member.value if member else None

    def forget_keys(self) -> None:
        """Look the members up again: they have changed."""
        self._by_key = None

    def at(self, path: KeyPath) -> Node | None:
        """The node at a key path below this one, or None."""
        node = self
        for element in path:
            if node.kind == "array":
                if not (element.isdecimal() and len(element) <= _MOST_DIGITS) or int(element) >= len(node.items):
                    return None
                node = node.items[int(element)]
            else:
                member = node.member(element)
                if member is None:
                    return None
                node = member.value
        return node

    def __repr__(self) -> str:
        return f"Node({self.kind}, {self.span}, {self.value!r})"


class Fraction(Node):
    """A template that is a float if it is a number: the product of a fraction and of what does not show."""

    __slots__ = ()


class Member:
    """A key and its value in an object; ``key_span`` includes the quotes."""

    __slots__ = ("key", "key_span", "value")

    def __init__(self, key: str, key_span: Span, value: Node) -> None:
        self.key = key
        self.key_span = key_span
        self.value = value


def walk(node: Node, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Member]]:
    """Every member below ``node`` with its key path, outermost first; duplicates included."""
    pending: list[tuple[KeyPath, Node]] = [(path, node)]
    while pending:  # a loop, not recursion: a document may nest deeper than Python's stack
        here, current = pending.pop()
        for member in current.members:
            below = (*here, member.key)
            yield below, member
            pending.append((below, member.value))
        pending.extend(((*here, str(index)), item) for index, item in enumerate(current.items))


def plain(node: Node) -> object:
    """The Python object that ``json.loads`` would have made of this node."""
    if node.kind == "object":
        return {member.key: plain(member.value) for member in node.members}
    if node.kind == "array":
        return [plain(item) for item in node.items]
    return node.value


def as_read(node: Node) -> Scalar:
    """The scalar that DeepSpeed gets from a file for a node of strict JSON: hjson makes integral floats integers."""
    value = node.value
    if isinstance(value, float) and value.is_integer() and abs(value) < MOST_INTEGRAL:
        return int(value)
    return value


def dotted(path: KeyPath) -> str:
    """A key path as messages and reports write it."""
    return ".".join(path)


def node_of(value: Any, span: Span) -> Node:
    """A Python value as a node, all of it at one place; a node stays as it is."""
    if isinstance(value, Node):
        return value
    if isinstance(value, dict):
        return Node("object", span, None, [Member(name, span, node_of(below, span)) for name, below in value.items()])
    if isinstance(value, list):
        return Node("array", span, None, None, [node_of(item, span) for item in value])
    return Node(SCALARS[type(value)], span, value)

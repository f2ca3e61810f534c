"""What ds-lint needs of ``tree_sitter``, by the tree-sitter of the page: there is no such wheel for Pyodide.

The page parses with the same grammar and hands over the whole tree at once, since each call between the languages costs
more than a node of Python. ``page/shell.js`` is the other side.
"""

from __future__ import annotations

import json
from typing import NamedTuple

_NAMED, _MISSING, _BROKEN = 1, 2, 4


class Point(NamedTuple):
    """A place in a text, counted from 0."""

    row: int
    column: int


class Node:
    """A node of the tree."""

    __slots__ = (
        "_field", "children", "end_byte", "end_point", "has_error", "id", "is_missing", "is_named", "parent",
        "start_byte", "start_point", "type",
    )  # fmt: skip

    def __init__(self, number: int, parent: Node | None, kind: str, field: str | None, record: list[int]) -> None:
        _, _, flags, self.start_byte, self.end_byte, *places, _ = record
        self.id, self.parent, self.type, self._field = number, parent, kind, field
        self.start_point, self.end_point = Point(*places[:2]), Point(*places[2:])
        self.is_named, self.is_missing = bool(flags & _NAMED), bool(flags & _MISSING)
        self.has_error = bool(flags & _BROKEN)
        self.children: list[Node] = []

    @property
    def named_children(self) -> list[Node]:
        """The parts that the grammar names."""
        return [child for child in self.children if child.is_named]

    def children_by_field_name(self, name: str) -> list[Node]:
        """The parts in one role."""
        return [child for child in self.children if child._field == name]  # noqa: SLF001 - of its own class

    def child_by_field_name(self, name: str) -> Node | None:
        """The first part in one role."""
        return next(iter(self.children_by_field_name(name)), None)


class Tree(NamedTuple):
    """The tree of a text."""

    root_node: Node


class Language:
    """The grammar of Bash, which is the only one."""

    def __init__(self, grammar: object) -> None:
        self.grammar = grammar


class Parser:
    """Parses texts whose characters are all of one byte."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def parse(self, text: bytes) -> Tree:
        """The tree of a text."""
        from ds_lint_page import parse  # type: ignore[import-not-found]  # what the worker registers

        tree = json.loads(parse(text.decode("ascii")))
        return Tree(_root(tree["nodes"], tree["words"]))


def _root(records: list[list[int]], words: list[str]) -> Node:
    """The node that holds all others, of records in the order of the text."""
    begun: list[tuple[Node, int]] = []  # the nodes around the next one, with how many parts they have
    for number, record in enumerate(records):
        while begun and len(begun[-1][0].children) == begun[-1][1]:
            begun.pop()
        kind, field, count = record[0], record[1], record[-1]
        parent = begun[-1][0] if begun else None
        node = Node(number, parent, words[kind], words[field] if field >= 0 else None, record)
        if parent is not None:
            parent.children.append(node)
        begun.append((node, count))
    return begun[0][0]

"""What the evaluator knows, as nodes with positions."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from ds_lint.source.evaluation.values import Dict, Known, List, Object, Slot, Undecided
from ds_lint.source.limits import MOST_BITS
from ds_lint.source.tree import Fraction, Member, Node, Span

if TYPE_CHECKING:
    from ds_lint.source.evaluation.values import Place, Value
    from ds_lint.source.python_offsets import Offsets

_DEEPEST = 60
_MOST_AT_ONCE = 20_000  # nodes of one value


class Snapshot:
    """A value as it is at one moment; ``is_open`` tells that there may be further keys."""

    __slots__ = ("fixed", "is_open", "node", "places")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_open = False
        self.fixed: list[Span] = []  # texts in the place of which no other value can be written
        self.places: list[ast.AST] = []  # that wrote keys


class Freezer:
    """Makes nodes of values, up to a number of them."""

    def __init__(self, offsets: Offsets, text: str, most: int) -> None:
        self._offsets = offsets
        self._text = text
        self._most = most
        self._left = 0

    def frozen(self, value: Value, place: Place) -> Snapshot:
        """A value on its own: a dict is where it is written."""
        result = Snapshot(Node("template", Span(0, 0)))
        self._left = min(self._most, _MOST_AT_ONCE)
        own = value.place if isinstance(value, (Dict, List)) and value.place is not None else place
        result.node = self._node(value, own, result, 0)
        result.is_open |= result.node.kind == "template"
        self._most -= min(self._most, _MOST_AT_ONCE) - max(self._left, 0)
        return result

    def keywords(self, entries: dict[str, Slot], called: ast.expr, *, is_open: bool) -> Snapshot:
        """The keywords of a call, at the name that is called."""
        result = Snapshot(Node("object", self._span(called)))
        result.is_open = is_open
        for key, slot in entries.items():
            one = self.frozen(slot.value, slot.place)
            result.is_open |= one.is_open and one.node.kind != "template"
            result.fixed += one.fixed
            result.places += one.places
            node = one.node
            span = self._span(slot.place)
            if slot.is_fixed:
                result.fixed.append(span)
            if slot.key_place is not None:
                result.places.append(slot.key_place)
            if node.kind in ("object", "array"):
                node = Node(node.kind, span, None, node.members, node.items)
            key_span = self._span(slot.key_place if slot.key_place is not None else slot.place)
            result.node.members.append(Member(key, key_span, node))
        return result

    def _span(self, place: Place) -> Span:
        if place is None or not hasattr(place, "lineno"):
            return Span(0, 0)
        if isinstance(place, ast.keyword):
            if place.arg is None:
                return self._offsets.span(place.value)
            start = self._offsets.offset(place.lineno, place.col_offset)
            return Span(start, start + len(place.arg))
        return self._offsets.span(place)  # type: ignore[arg-type]  # whatever has a line

    def _node(self, value: Value, place: Place, result: Snapshot, depth: int) -> Node:
        span = self._span(place)
        self._left -= 1
        if (self._left < 0 and depth) or depth > _DEEPEST:
            return Node("template", span, self._text[span.start : span.end])
        if isinstance(value, Object) and value.cls.kind == "number":
            value = value.attributes.content.entries["_value_"].value
        if isinstance(value, Known) and (node := _of_scalar(value.value, span)) is not None:
            return node
        if isinstance(value, Dict) and not value.is_lost:
            made = Node("object", span)
            result.is_open |= value.content.is_open
            self._fill(made, value.content.entries, result, depth)
            return made
        if (
            isinstance(value, List)
            and value.kind in ("list", "tuple")
            and not value.is_lost
            and value.content is not None
        ):
            items = [self._slot(slot, result, depth) for slot in value.content]
            kinds = {item.kind for item in items}
            if "template" not in kinds or "object" in kinds:
                return Node("array", span, items=items)
        text = self._text[span.start : span.end]
        if isinstance(value, Undecided) and value.is_fraction:
            return Fraction("template", span, text)
        return Node("template", span, text)

    def _fill(self, made: Node, entries: object, result: Snapshot, depth: int) -> None:
        assert isinstance(entries, dict)  # noqa: S101
        for key, slot in entries.items():
            if not isinstance(key, str):
                result.is_open = True
                continue
            if slot.key_place is not None:
                result.places.append(slot.key_place)
            key_span = self._span(slot.key_place if slot.key_place is not None else slot.place)
            made.members.append(Member(key, key_span, self._slot(slot, result, depth)))

    def _slot(self, slot: Slot, result: Snapshot, depth: int) -> Node:
        if slot.may_be_missing and not isinstance(slot.value, Undecided):
            span = self._span(slot.place)
            return Node("template", span, self._text[span.start : span.end])
        node = self._node(slot.value, slot.place, result, depth + 1)
        if slot.is_fixed:
            result.fixed.append(node.span)
        return node


def _of_scalar(value: object, span: Span) -> Node | None:
    """The node of a scalar; None for one that no config has."""
    if value is None:
        return Node("null", span)
    if isinstance(value, bool):
        return Node("boolean", span, value)
    if isinstance(value, int):
        return Node("integer", span, value) if value.bit_length() <= MOST_BITS else None
    if isinstance(value, float):
        is_finite = value - value == 0
        return Node("float", span, value) if is_finite else None
    if isinstance(value, str):
        return Node("string", span, value)
    return None


def joined(nodes: list[Node]) -> Node:
    """What is known of a value that is one of several, which are in the same place."""
    first = nodes[0]
    if all(_is_same(first, other) for other in nodes[1:]):
        return first
    if all(node.kind == "object" for node in nodes):
        made = Node("object", first.span)
        for node in nodes:
            for member in node.members:
                if made.member(member.key) is None:
                    found = [one.get(member.key) for one in nodes]
                    known = [one for one in found if one is not None]
                    value = joined(known) if len(known) == len(nodes) else _unknown(known[0])
                    made.members.append(Member(member.key, member.key_span, value))
                    made.forget_keys()
        return made
    if all(node.kind == "array" for node in nodes) and len({len(node.items) for node in nodes}) == 1:
        items = [joined([node.items[index] for node in nodes]) for index in range(len(first.items))]
        if all(item.kind != "template" for item in items):
            return Node("array", first.span, items=items)
    return _unknown(first)


def _unknown(node: Node) -> Node:
    return Node("template", node.span, str(node.value))


def _is_same(one: Node, other: Node) -> bool:
    if one.kind != other.kind or type(one.value) is not type(other.value) or one.value != other.value:
        return False
    if [member.key for member in one.members] != [member.key for member in other.members]:
        return False
    if len(one.items) != len(other.items):
        return False
    pairs = [*zip(one.items, other.items, strict=True)]
    pairs += [(left.value, right.value) for left, right in zip(one.members, other.members, strict=True)]
    return all(_is_same(left, right) for left, right in pairs)

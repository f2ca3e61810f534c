"""Configs merged as ``OmegaConf.merge`` does, and overrides applied as Hydra does.

Sources: ``_map_merge`` in ``omegaconf/basecontainer.py``, ``_apply_overrides_to_config`` in
``hydra/_internal/config_loader_impl.py``.
"""

from __future__ import annotations

from ds_lint.source.hydra.places import NotComposedError
from ds_lint.source.tree import Member, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.hydra.overrides import Override
    from ds_lint.source.tree import Span

MISSING = "???"


class AbsentKeyError(NotComposedError):
    """An override of a key that the config does not have, for which Hydra raises."""

    def __init__(self, override: Override, parent: Node, path: list[str]) -> None:
        super().__init__(f"{override.key} does not exist")
        self.override = override
        self.parent = parent  # the deepest mapping that there is
        self.path = path  # of the first key that is not there


def merged(base: Node, over: Node) -> Node:
    """Two mappings as one; neither is changed."""
    if base.kind != "object" or over.kind != "object":
        if base.kind == "string" and "${" in str(base.value) and over.kind == "object":
            raise NotComposedError("a mapping is merged into an interpolation")
        if {base.kind, over.kind} == {"array", "object"}:
            raise NotComposedError("a list and a mapping are not merged")
        return over
    members = {one.key: one for one in base.members}
    for one in over.members:
        before = members.get(one.key)
        if before is None:
            members[one.key] = one
        elif one.value.value != MISSING:
            value = merged(before.value, one.value)
            is_whole = value is one.value
            members[one.key] = Member(one.key, one.key_span if is_whole else before.key_span, value)
    return Node("object", base.span, None, list(members.values()))


def packed(node: Node, package: str) -> Node:
    """A mapping under the keys of a package."""
    for key in reversed(package.split(".") if package else []):
        node = Node("object", node.span, None, [Member(key, node.span, node)])
    return node


def overridden(root: Node, one: Override) -> Node:
    """A config with an override of a value."""
    path = one.key.split(".")
    if one.how == "delete":
        return _deleted(root, path, one)
    if one.value is None:
        raise NotComposedError(f"{one.word} has no value")
    if one.how == "change":
        _check(root, path, one)
    if one.how == "add" and one.value.kind not in ("object", "array"):
        there = root.at(tuple(path))
        if there is not None and there.kind != "null" and there.value != MISSING:
            raise NotComposedError(f"{one.key} is there already")
    return _set(root, path, one)


def _check(root: Node, path: list[str], one: Override) -> None:
    """Whether a key that is changed is there; a mapping of the command line must not add keys, either."""
    node = root
    for depth, key in enumerate(path):
        if node.kind == "array":
            if not key.isdecimal() or int(key) >= len(node.items):
                raise NotComposedError(f"{one.key} is not in a list")
            node = node.items[int(key)]
            continue
        if node.kind == "string" and "${" in str(node.value):
            raise NotComposedError(f"{one.key} is in an interpolation")
        if node.kind != "object" or (inner := node.get(key)) is None:
            if node.kind not in ("object", "null"):
                raise NotComposedError(f"{one.key} is in a value")
            raise AbsentKeyError(one, node, path[: depth + 1])
        node = inner
    if one.value is not None and one.value.kind == "object":
        _check_inside(node, one.value, path, one)


def _check_inside(node: Node, value: Node, path: list[str], one: Override) -> None:
    if node.kind != "object":
        if value.members:
            raise NotComposedError(f"{one.key} was not a mapping")
        return
    for member in value.members:
        inner = node.get(member.key)
        if inner is None:
            raise AbsentKeyError(one, node, [*path, member.key])
        if member.value.kind == "object":
            _check_inside(inner, member.value, [*path, member.key], one)


def _set(node: Node, path: list[str], one: Override) -> Node:
    assert one.value is not None  # noqa: S101 - see ``overridden``
    if not path:
        is_merged = one.value.kind in ("array", "object") and node.kind in ("array", "object")
        return merged(node, one.value) if is_merged else one.value
    key, *below = path
    if node.kind == "array":
        if not key.isdecimal() or int(key) >= len(node.items):
            raise NotComposedError(f"{one.key} is not in a list")
        items = [_set(item, below, one) if at == int(key) else item for at, item in enumerate(node.items)]
        return Node("array", node.span, None, None, items)
    if node.kind == "string" and "${" in str(node.value):
        raise NotComposedError(f"{one.key} is in an interpolation")
    if node.kind != "object":
        node = Node("object", one.span)
    before = node.member(key)
    if before is None:
        new = Member(key, one.span, _set(Node("missing", one.span), below, one))
        return Node("object", node.span, None, [*node.members, new])
    changed = _set(before.value, below, one)
    member = Member(key, before.key_span if below else one.span, changed)
    return Node("object", node.span, None, [member if old is before else old for old in node.members])


def _deleted(node: Node, path: list[str], one: Override) -> Node:
    key, *below = path
    member = node.member(key) if node.kind == "object" else None
    if member is None:
        raise NotComposedError(f"{one.key} is not there")
    if below:
        changed = Member(key, member.key_span, _deleted(member.value, below, one))
        members = [changed if old is member else old for old in node.members]
    else:
        if one.value is not None and (
            one.value.kind in ("array", "object", "template") or one.value.value != member.value.value
        ):
            raise NotComposedError(f"{one.key} has another value")
        members = [old for old in node.members if old is not member]
    return Node("object", node.span, None, members)


def with_span(node: Node, span: Span) -> Node:
    """A value at another place, such as that of the interpolation which stands for it."""
    members = [Member(one.key, span, with_span(one.value, span)) for one in node.members]
    return Node(node.kind, span, node.value, members, [with_span(one, span) for one in node.items])

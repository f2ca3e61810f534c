"""What a launch and its script make of a config before DeepSpeed gets it: values of arguments, and keys that change."""

from __future__ import annotations

import os

from ds_lint.facts.script_values import script_value
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.source.tree import Member, Node, node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.source.document import Document


def as_launched(document: Document, root: Node, launch: LaunchFacts, knowledge: Knowledge) -> Node:
    """The config as the script has it: a copy, if it is another one than the text shows."""
    script, text = launch.script, launch.script_document
    if script is None or text is None or root.kind != "object":
        return root
    if document.is_python:
        is_own = os.path.abspath(text.path) == os.path.abspath(document.path)
        return _with_arguments(root, launch, document) if is_own and script.expressions else root
    for path in script.changed_keys:
        if knowledge.knows(path) or root.at(path) is not None:  # the script's own are not in the text
            root = _with_unknown(root, path)
    return root


def _with_arguments(node: Node, launch: LaunchFacts, document: Document) -> Node:
    """The config with the values of the arguments that stand in it."""
    if node.kind == "template":
        script = launch.script
        text = script.expressions.get(str(node.value)) if script is not None else None
        value = script_value(text, launch.launch, script) if text is not None else UNKNOWN
        if value is None or not isinstance(value, (bool, int, float, str)):
            return node
        if node.span not in document.stand_ins:  # no fix writes over the argument
            document.stand_ins = [*document.stand_ins, node.span]
        return node_of(value, node.span)
    members = [Member(one.key, one.key_span, _with_arguments(one.value, launch, document)) for one in node.members]
    return Node(node.kind, node.span, node.value, members, node.items)


def _with_unknown(node: Node, path: tuple[str, ...]) -> Node:
    """The config with an unknown value at a path; as it is if there is no object to hold it."""
    if not path:
        return Node("template", node.span, "unknown")
    if node.kind != "object":
        return node
    member = node.member(path[0])
    if member is None:
        if len(path) > 1:
            return node
        start = node.members[0].key_span if node.members else node.span
        member = Member(path[0], start, Node("template", start, "unknown"))
        return Node(node.kind, node.span, node.value, [*node.members, member], node.items)
    changed = Member(member.key, member.key_span, _with_unknown(member.value, path[1:]))
    members = [changed if one is member else one for one in node.members]
    return Node(node.kind, node.span, node.value, members, node.items)

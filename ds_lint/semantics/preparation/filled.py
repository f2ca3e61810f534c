"""The tree of a config with the values in place of every ``"auto"`` of which it is known what fills it."""

from __future__ import annotations

from ds_lint.semantics.evaluation import evaluated_alone
from ds_lint.semantics.preparation import prepare
from ds_lint.semantics.preparation.stages import holds_unknown
from ds_lint.semantics.preparation.words import source_of
from ds_lint.source.tree import Member, Node, node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath

_OF_TRAINING = ("optimizer", "scheduler")


def fill_in(config: Config) -> Config:
    """The config with the values that the Trainer and Accelerate put in place of ``"auto"``, where they are known.

    An engine that only evaluates looks at neither ``optimizer`` nor ``scheduler``.
    """
    if config.stack != "trainer":
        return config
    is_evaluated = evaluated_alone(config) is not None
    if config.facts.training is None and not is_evaluated:
        return config
    root, added, sources = config.written, [], {}
    for path, setting in prepare(config).settings.items():
        if holds_unknown(setting.value):
            continue
        auto = config.written.at(path)
        if setting.did == "filled" and auto is not None:
            root = _with_value(root, path, node_of(setting.value, auto.span))
            sources[auto.span] = source_of(path, setting)
        elif setting.did == "inserted" and path[0] in ("fp16", "bf16"):
            added.append(Member(path[0], config.opening, node_of(setting.value, config.opening)))
    if is_evaluated and root.kind == "object":
        members = [member for member in root.members if member.key not in _OF_TRAINING]
        root = Node(root.kind, root.span, root.value, members, root.items)
    config.fill(root, added, sources)
    return config


def _with_value(node: Node, path: KeyPath, value: Node) -> Node:
    """A copy of the node in which the last member at this path has another value."""
    if not path:
        return value
    changed = node.member(path[0])
    members = [
        Member(member.key, member.key_span, _with_value(member.value, path[1:], value)) if member is changed else member
        for member in node.members
    ]
    return Node(node.kind, node.span, node.value, members, node.items)

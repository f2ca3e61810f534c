"""A config as it would be with other values, training arguments and ranks: a change is tried before it is made."""

from __future__ import annotations

from ds_lint.semantics.config import Config
from ds_lint.semantics.preparation.filled import fill_in
from ds_lint.source.tree import Member, Node, node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.facts import Facts
    from ds_lint.source.tree import KeyPath, Span


def rewritten(config: Config, values: Mapping[KeyPath, object], facts: Facts) -> Config:
    """The config with other values at these paths, and other facts beside it."""
    root = config.written
    for path, value in values.items():
        root = _with_value(root, path, value, config.opening)
    changed = Config(config.document, root, config.basis.but(facts=facts))
    changed.preset = config.preset
    changed.accelerate, changed.call, changed.stacks = config.accelerate, config.call, config.stacks
    return fill_in(changed)


def with_arguments(facts: Facts, values: Mapping[str, object]) -> Facts:
    """The facts with other training arguments, as the command line or a call gives them."""
    from ds_lint.facts.training import Argument, TrainingArguments

    known, changed = facts.training, facts.copy()
    if known is not None and values:
        given = {**known.given, **known.others, **{name: Argument(value, "") for name, value in values.items()}}
        changed.training = TrainingArguments(
            given, known.origin, are_taken=known.are_taken, defaults=known.defaults, defaults_of=known.defaults_of
        )
    return changed


def _with_value(node: Node, path: KeyPath, value: object, place: Span) -> Node:
    """A copy of a node with a value at a path; what is not an object on the way becomes one."""
    if not path:
        return node_of(value, place)
    members = list(node.members) if node.kind == "object" else []
    found = node.member(path[0]) if node.kind == "object" else None
    below = found.value if found is not None else Node("object", place)
    member = Member(path[0], found.key_span if found is not None else place, _with_value(below, path[1:], value, place))
    members = [member if one is found else one for one in members] if found is not None else [*members, member]
    return Node("object", node.span, None, members)

"""A DeepSpeed config that a library makes of settings with other names, with the places of the settings."""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record, field
from ds_lint.source.tree import Member, Node, Span, node_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.source.tree import KeyPath


class SourceSetting(Record):
    """A value that is written or a default; ``path`` and ``member`` are where it is, None for a default.

    A value that is not known is UNKNOWN; that of a mapping or list may be its node.
    """

    value: Any
    path: KeyPath | None = None
    member: Member | None = None


class MadeConfig(Record):
    """The config. ``sources`` has the path of the setting behind each key of the config.

    What is not known is a placeholder. What no setting says is a default of the library: it is at ``span``, and
    its source is ``around``.
    """

    around: KeyPath
    span: Span
    sources: dict[KeyPath, KeyPath] = field(factory=dict)
    sections: dict[KeyPath, KeyPath] = field(factory=dict)  # that are there because of a setting

    def __post_init__(self) -> None:
        self.root = Node("object", Span(self.span.start, self.span.end))

    def source(self, path: KeyPath | None) -> KeyPath:
        """The setting that a key of the config comes from."""
        if (found := self.sections.get(path or ())) is not None:
            return found
        for length in range(len(path or ()), 0, -1):
            if (found := self.sources.get((path or ())[:length])) is not None:
                return found
        return self.around

    def is_default(self, path: KeyPath) -> bool:
        """Whether no setting sets a value of the config, or what a section of it has."""
        is_set = any(path[:length] in self.sources for length in range(1, len(path) + 1))
        return not (is_set or path in self.sections or any(one[: len(path)] == path for one in self.sources))

    def add(self, path: KeyPath, value: Any, setting: SourceSetting | None = None) -> None:
        """Add a value, with the sections that it is in."""
        key_span = span = self.span
        if setting is not None and setting.member is not None and setting.path is not None:
            key_span, span = setting.member.key_span, setting.member.value.span
            if span.start == span.end:  # nothing is written there
                span = key_span
            self.sources[path] = setting.path
        section = self.root
        for name in path[:-1]:
            member = next((one for one in section.members if one.key == name), None)
            if member is None:
                section.forget_keys()
                section.members.append(member := Member(name, self.span, Node("object", self.span)))
            section = member.value
        section.forget_keys()
        section.members.append(Member(path[-1], key_span, setting_node(value, Span(span.start, span.end))))

    def remove(self, section: str) -> None:
        """Remove a section of the top level, with the settings behind its keys."""
        self.root.members[:] = [one for one in self.root.members if one.key != section]
        self.root.forget_keys()
        self.sources = {key: source for key, source in self.sources.items() if key[0] != section}


def setting_node(value: Any, span: Span) -> Node:
    """The value of a setting as a node, which is at a span."""
    return Node("template", span, "unknown") if value is UNKNOWN else node_of(value, span)

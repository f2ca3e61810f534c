"""The config that a framework ships, as the pinned release has it, with what the framework sets in it."""

from __future__ import annotations

import re
from copy import copy, deepcopy

from ds_lint.knowledge import tables
from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.presets import preset, preset_changes, release_of
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.preset import FLAGS
from ds_lint.source.tree import Member, Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.launches.launch import Launch
    from ds_lint.launches.preset import Preset
    from ds_lint.semantics.basis import Basis
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath

_NUMBER = re.compile(r"-?\d+(\.\d+)?")


class PresetConfig:
    """Which config it is, as rules and commands mention it: nothing in it is written by the user."""

    __slots__ = ("_set", "is_there", "named", "release")

    def __init__(self, named: Preset, release: str | None, changed: set[KeyPath], *, is_there: bool = True) -> None:
        self.named = named
        self._set = changed
        self.is_there = is_there  # in the release
        self.release = release  # None if the pin of the project allows none that is known

    @property
    def library(self) -> str:
        """Whose config it is."""
        return f"{self.named.framework.name} {self.release}"

    def key(self, path: KeyPath | None) -> KeyPath | None:
        """The key, which has its own name."""
        return path

    def is_default(self, path: KeyPath) -> bool:
        """Whether the framework has the value whatever it is started with."""
        return not any(path[: len(one)] == one or one[: len(path)] == path for one in self._set)

    def advice(self, _path: KeyPath | None) -> str:
        """What to write instead of the word."""
        named = self.named
        whose = (
            f"in the repository of {self.library}, not in the project"
            if named.is_file
            else f"of {named.framework.name}"
        )
        return f"`{named.word}` is a config {whose}: name a copy of it with the change."


def as_released(document: Document, basis: Basis) -> tuple[Document, PresetConfig]:
    """The document with the config of the release that the project pins."""
    one: Preset = document.preset
    root, made = preset_root(one, basis)
    document = copy(document)
    document.root = root
    return document, made


def preset_root(one: Preset, basis: Basis) -> tuple[Node, PresetConfig]:
    """The config, all of it at the word that names it; one without keys if the release has no such config."""
    release = release_of(one.framework.name, basis.pins.get(one.framework.package), one.word)
    values = preset(one.framework.name, one.word, release)
    if values is None:
        return Node("missing", one.place), PresetConfig(one, release, set(), is_there=False)
    config: dict[str, Any] = deepcopy(dict(values))
    changed: set[KeyPath] = set()
    for path, change in preset_changes(one.framework.name, release).items():
        holds = [_evaluated(condition, one, config) for condition in change["only_if"]]
        if any(value is not UNKNOWN and not value for value in holds):
            continue
        value = UNKNOWN if UNKNOWN in holds else _evaluated(change["value"], one, config)
        section = config
        for name in path[:-1]:
            section = section.setdefault(name, {})
        section[path[-1]] = value
        changed.add(path)
    return nodes_at(config, one.place), PresetConfig(one, release, changed)


def flags_beside(launch: Launch) -> list[Member]:
    """The options of ``accelerate launch`` among those of a framework, which are none of its script."""
    own = tables.load("transformers")["training_arguments"].keys() | FLAGS.values()
    return [
        Member(name, Span(0, 0), Node("template" if value is None else "string", Span(0, 0), _text(value)))
        for name, value in launch.arguments.items()
        if name in tables.load("accelerate")["launch_arguments"] and name not in own
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def nodes_at(value: Any, place: Span) -> Node:
    """A value as a node, whose parts are at one place, each at a span of its own."""
    span = Span(place.start, place.end)
    if value is UNKNOWN:
        return Node("template", span, "unknown")
    if isinstance(value, dict):
        members = [Member(name, Span(place.start, place.end), nodes_at(below, place)) for name, below in value.items()]
        return Node("object", span, None, members)
    if isinstance(value, list):
        return Node("array", span, None, None, [nodes_at(item, place) for item in value])
    from ds_lint.source.tree import node_of

    return node_of(value, span)


def _evaluated(text: str, one: Preset, config: dict[str, Any]) -> Any:
    def look_up(name: str) -> Any:
        if name == "deepspeed":
            return config
        if not name.isidentifier():
            return UNKNOWN
        value = one.value(name)
        return (float(value) if "." in value else int(value)) if _is_number(value) else value

    try:
        return evaluate(text, look_up)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        return UNKNOWN


def _is_number(value: object) -> bool:
    return isinstance(value, str) and _NUMBER.fullmatch(value) is not None

"""The config that a launch composes with Hydra or OmegaConf, and the mappings of it that are DeepSpeed's."""

from __future__ import annotations

import os
from copy import copy
from typing import NamedTuple

from ds_lint.source import inline
from ds_lint.source.composed_places import ComposedPlaces
from ds_lint.source.hydra.interpolation import Interpolations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ds_lint.launches.composing_script import ComposingScript
    from ds_lint.source.document import Document
    from ds_lint.source.hydra.composition import Composed
    from ds_lint.source.tree import KeyPath, Node, Span


def _overlap(one: KeyPath, other: KeyPath) -> bool:
    """Whether one of two key paths leads to the other."""
    shared = min(len(one), len(other))
    return one[:shared] == other[:shared]


def _opening(root: Node) -> Span:
    return root.members[0].key_span if root.members else root.span


class _Owner(NamedTuple):
    """A mapping of a file, and where it is in the composed config."""

    path: str
    keys: KeyPath  # within the file
    place: KeyPath


class ComposedConfig:
    """What a launch composes; ``words`` are those of the command line that take part.

    A mapping in a file is looked at as the run has it, which other files and words may have changed. Of several files
    with parts of one mapping, the first one shows what is about none of them.
    """

    def __init__(
        self,
        composed: Composed,
        script: ComposingScript,
        environment: Mapping[str, str | None],
        words: tuple[str, ...],
        launching: Document,
    ) -> None:
        self.absent = composed.absent
        self.words = words
        self._composed = composed
        self._script = script
        self._launching = launching
        self._root = Interpolations(composed.root, environment, self._is_word)
        self._owners: dict[tuple[str, KeyPath], _Owner] = {}
        self._first: dict[KeyPath, str] = {}
        for document, package in composed.files:
            for found in inline.configs(document):
                keys = found.keys_above or ()
                place = (*package, *keys)
                self._owners.setdefault((os.path.realpath(document.path), keys), _Owner(document.path, keys, place))
                self._first.setdefault(place, os.path.realpath(document.path))

    @property
    def paths(self) -> list[str]:
        """The files with mappings that are DeepSpeed's."""
        return list(dict.fromkeys(one.path for one in self._owners.values()))

    @property
    def documents(self) -> list[Document]:
        """All files that it comes from."""
        return [part.document for part in self._composed.texts.parts]

    def covers(self, document: Document) -> bool:
        """Whether a mapping in a file is part of what is composed."""
        return self._of(document) is not None

    def as_composed(self, document: Document) -> Document:
        """A mapping in a file as the run has it; as it is if it is not part of it."""
        owner = self._of(document)
        if owner is not None and any(_overlap(one, owner.place) for one in self._script.changed):
            return document
        node = self._composed.root.at(owner.place) if owner is not None else None
        if owner is None or node is None or document.root is None:
            return document
        root = inline.as_handed_on(self._root.resolved(node, owner.place))
        is_first = self._first[owner.place] == os.path.realpath(document.path)
        found = copy(document)
        found.root = root
        found.text = found.content = self._composed.texts.text
        others = {os.path.realpath(one.path) for one in self._owners.values()}
        found.composed = ComposedPlaces(
            self._composed.texts, document.path, _opening(document.root), others if is_first else None
        )
        for one in self._script.handed_over:
            if one.path == owner.place and document.kind == "deepspeed":
                found.stack, found.is_fragment, found.may_have_own_keys = one.stack, one.is_fragment, False
        return found

    def _of(self, document: Document) -> _Owner | None:
        owner = self._owners.get((os.path.realpath(document.path), document.keys_above or ()))
        there = self._composed.root.at(owner.place) if owner is not None else None
        return owner if there is not None and there.kind == "object" else None

    def _is_word(self, node: Node) -> bool:
        document, _ = self._composed.texts.place(node.span)
        return document is self._launching

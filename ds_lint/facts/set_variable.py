"""The record of an environment variable that a launch or its script sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ds_lint.launches.word import Word
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Span


class SetVariable(NamedTuple):
    """A variable that gets a value, None if that is not known; one of ``is_default`` only if it has none."""

    name: str
    value: Word
    document: Document
    span: Span
    is_in_script: bool = False
    is_default: bool = False

    @property
    def says(self) -> object:
        """What decides about findings."""
        return self.name, self.value, self.document.path, self.span

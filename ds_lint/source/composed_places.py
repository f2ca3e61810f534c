"""Where the values of a composed config are written."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.hydra.places import SourceTexts
    from ds_lint.source.tree import Span


class ComposedPlaces:
    """The places of one mapping: ``path`` is its file, ``opening`` where it is there.

    ``others`` are the files that are looked at themselves, whose places are left to them; None if only those in the
    file itself count.
    """

    def __init__(self, texts: SourceTexts, path: str, opening: Span, others: set[str] | None) -> None:
        self._texts = texts
        self._path = os.path.realpath(path)
        self._others = others
        self.opening = opening

    def place(self, span: Span) -> tuple[Document, Span]:
        """The file and the range there."""
        return self._texts.place(span)

    def is_own(self, document: Document) -> bool:
        """Whether a place is in the file of the mapping."""
        return os.path.realpath(document.path) == self._path

    def counts(self, document: Document) -> bool:
        """Whether a finding at a place in this file belongs to the mapping."""
        return self.is_own(document) or (
            self._others is not None and os.path.realpath(document.path) not in self._others
        )

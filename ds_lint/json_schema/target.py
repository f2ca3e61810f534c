"""The release that a schema is made for, as the projection asks for it."""

from __future__ import annotations

from ds_lint.record import Record
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.keys import Key, Knowledge
    from ds_lint.source.tree import KeyPath


class SchemaTarget(Record):
    """One release: its keys, and who fills them.

    ``is_newest``: the overlay was measured with this very release, so that what it says of values may be asserted.
    ``is_lax``: this release has pydantic 1, which cuts fractions off and writes numbers as strings where it must.
    """

    knowledge: Knowledge

    def __post_init__(self) -> None:
        self.is_newest = self.knowledge.is_newest
        self.is_lax = self.knowledge.is_lax

    def knows_every_key_of(self, key: Key) -> bool:
        """Whether a key that is not known in this section is surely not read.

        Keys in an open section of an older release may be read where no extractor sees it, and were never measured.
        """
        sections = (self.knowledge.find(key.path[:depth]) for depth in range(len(key.path) + 1))
        return self.is_newest or not any(one is not None and one.facts.get("unknown") == "open" for one in sections)

    def filling(self, path: KeyPath) -> str | None:
        """Who fills an ``"auto"`` at this path and with what, or None if none does."""
        filled = self.knowledge.trainer["fills"].get(dotted(path))
        if filled is None:
            return None
        who = "the Trainer and Accelerate fill" if len(filled["by"]) > 1 else "the Trainer fills"
        return f'{who} `"auto"` with {filled["with"]}'

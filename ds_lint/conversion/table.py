"""What becomes of keys, by ``schemas/conversion.json``: of each that no other module converts, a note."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.conversion.note import Note, spelled
from ds_lint.knowledge import tables
from ds_lint.record import Record
from ds_lint.source.tree import dotted

if TYPE_CHECKING:
    from typing import Any, Literal

    from ds_lint.knowledge.records import ConversionEntry
    from ds_lint.source.tree import KeyPath

    Direction = Literal["to_fsdp", "to_deepspeed"]


class Fate(Record):
    """An entry of the table, and the key at which it is: the given one, or a section around it."""

    at: str
    entry: ConversionEntry


def fate(direction: Direction, path: KeyPath) -> Fate | None:
    """What becomes of a key; None if the table does not know it.

    An entry of a section holds for its keys, unless it maps the section.
    """
    entries = _entries(direction)
    for length in range(len(path), 0, -1):
        name = dotted(path[:length])
        if name in entries and (length == len(path) or entries[name]["fate"] != "mapped"):
            return Fate(name, entries[name])
    return None


def note_on(found: Fate, key: str, value: Any) -> Note | None:
    """The note on a key with its value; None if other modules convert the key."""
    subject = found.entry["fate"]
    return None if subject == "mapped" else Note(subject, found.entry["text"], key, spelled(key, value))


def _entries(direction: Direction) -> dict[str, ConversionEntry]:
    if direction not in _known:
        _known[direction] = {key: entry for entry in tables.load("conversion")[direction] for key in entry["keys"]}
    return _known[direction]


_known: dict[str, dict[str, ConversionEntry]] = {}

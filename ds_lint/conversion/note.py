"""What a conversion leaves out, approximates, or changes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from ds_lint.source.spelling import as_json

Subject = Literal[
    "nearest", "no-counterpart", "not-needed", "not-read", "script", "memory", "saving", "precision", "start"
]

_OF_KEYS = {
    "no-counterpart": ("has no counterpart", "have no counterpart"),
    "not-needed": ("is not needed", "are not needed"),
    "not-read": ("is left out", "are left out"),
    "script": ("belongs to the script", "belong to the script"),
}
LONGEST = 80  # characters of a value that a note repeats


class Note(NamedTuple):
    """One line for the reader: about a key of the config, or about the run as a whole (``key`` is None).

    ``written`` is the key with its value as the line names it. A subject about keys has its verb put before the text.
    """

    subject: Subject
    text: str
    key: str | None = None
    written: str = ""

    @property
    def message(self) -> str:
        """The whole line."""
        return joined([self])[0]


class Converted(NamedTuple):
    """What a conversion writes, and what it says."""

    content: dict[str, object]
    notes: list[Note]


def joined(notes: list[Note]) -> list[str]:
    """The lines, one for all keys with the same message."""
    groups: dict[tuple[str, str, bool], list[str]] = {}
    for note in notes:
        groups.setdefault((note.subject, note.text, note.key is None), []).append(note.written)
    lines = []
    for (subject, text, is_about_run), keys in groups.items():
        if subject in _OF_KEYS:
            lines.append(f"{', '.join(keys)} {_OF_KEYS[subject][len(keys) > 1]}: {text}")
        elif is_about_run:
            lines.append(f"{subject}: {text}")
        else:
            lines.append(f"{', '.join(keys)} {text}")
    return lines


def spelled(key: str, value: object) -> str:
    """A key with its value; of a long value, the keys in it, if there are any."""
    text = as_json(value)
    if len(text) <= LONGEST:
        return f"`{key}: {text}`"
    names = [name for name in value if isinstance(name, str)] if isinstance(value, dict) else []
    return f"`{key}` ({', '.join(names)})" if names else f"`{key}`"

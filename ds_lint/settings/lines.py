"""The line of each setting in a settings file, for messages that name their source."""

from __future__ import annotations

import os
import re

from ds_lint.settings.record import OWN_TABLE, SHARED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Place = tuple[str, ...]

_HEADER = re.compile(r"\s*\[\[?([^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*'|\s*\.\s*)+?)\s*=""")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")


def lines_of(text: str, path: str) -> dict[Place, int]:
    """The line of every setting by its name; in the entries of ``configs`` also by number and name."""
    own = ("tool", OWN_TABLE) if os.path.basename(path) == SHARED else ()
    found: dict[Place, int] = {}
    entries = 0
    for number, place, is_entry in _statements(text):
        if place[: len(own)] != own or len(place) == len(own):
            continue
        name, *rest = place[len(own) :]
        found.setdefault((name,), number)
        if name == "configs":
            entries += is_entry
            found.setdefault((name, str(entries - 1), *rest), number)
    return found


def _statements(text: str) -> Iterator[tuple[int, Place, bool]]:
    """Number and place of each line that opens a table or gives a value, and whether it opens one of several."""
    table: Place = ()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _parts(header[1])
            yield number, table, line.lstrip().startswith("[[")
        elif key := _KEY.match(line):
            yield number, (*table, *_parts(key[1])), False


def _parts(key: str) -> Place:
    return tuple(part.strip("\"'") for part in _PART.findall(key))

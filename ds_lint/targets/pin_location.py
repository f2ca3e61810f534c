"""Where a pin is in its file, looked for when a finding refers to it."""

from __future__ import annotations

import re

from ds_lint.targets.text import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.targets.pin import Pin


def place_of(pin: Pin) -> tuple[str, str, int, int] | None:
    """The path and the text of the first file that states a pin, and from where to where the line reaches.

    None for a pin that no file states, such as that of an installed release.
    """
    if not pin.places:
        return None
    place = pin.places[0]
    text = text_of(place.path)
    start = _named(text, pin.library) if place.line is None else _start(text, place.line)
    if not text or start is None:
        return None
    end = text.find("\n", start)
    written = text[start : end if end >= 0 else len(text)]
    return place.path, text, start + len(written) - len(written.lstrip()), start + len(written.rstrip())


def _start(text: str, line: int) -> int | None:
    """Where a line begins, by its number."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            return None
    return start


def _named(text: str, library: str) -> int | None:
    """Where the first line begins that names a library and a version, or a library alone."""
    name = rf"(?im)^[^#\n]*(?<![\w.-]){library}(?![\w.])"
    found = re.search(rf"{name}(?!-)[^\n]*\d", text) or re.search(rf"{name}[^\n]*", text)
    return found.start() if found else None

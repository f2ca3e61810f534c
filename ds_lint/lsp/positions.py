r"""Lines and columns as the Language Server Protocol counts them.

Lines end at ``\n``, ``\r\n`` or ``\r`` and at nothing else; columns count units of the encoding that client and server
agreed on. ds-lint itself counts code points from the start of the text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from ds_lint.source.tree import Span

_LINE_END = re.compile(r"\r\n|\r|\n")
_SURROGATE = re.compile("[\ud800-\udfff]")
_CODECS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}  # with bytes of a unit


class Lines:
    """The lines of one text, found as far as they are needed.

    ``hidden`` is how many characters are before what the client has: the byte order mark of a file, which editors
    keep to themselves.
    """

    def __init__(self, text: str, encoding: str = "utf-16", *, hidden: int = 0) -> None:
        self.text = text
        self.encoding = encoding
        self.hidden = hidden
        self._starts = [hidden]  # of the lines found so far
        self._is_complete = False

    def offset(self, position: types.Position) -> int:
        """The place of a position; one behind the end of its line is that end, one behind the text the text's."""
        self._find_line(position.line)
        if position.line >= len(self._starts):
            return len(self.text)
        start = self._starts[position.line]
        found = _LINE_END.search(self.text, start)
        line = self.text[start : found.start() if found else len(self.text)]
        return start + self._characters(line, position.character)

    def span(self, place: types.Range) -> tuple[int, int]:
        """Start and end of a range; one that ends before it begins is empty."""
        start = self.offset(place.start)
        return start, max(start, self.offset(place.end))

    def position(self, offset: int) -> types.Position:
        """The position of a place."""
        offset = min(offset, len(self.text))
        self._find_offset(offset)
        line = max(0, bisect_right(self._starts, offset) - 1)
        return types.Position(line, self._units(self.text[self._starts[line] : offset]))

    def range(self, span: Span) -> types.Range:
        """The range of a span."""
        return types.Range(self.position(span.start), self.position(span.end))

    def replaced(self, start: int, end: int, text: str) -> Lines:
        """The lines of the text with a part replaced; those before the part are known already."""
        before, after = self.text[:start], self.text[end:]
        seams = before[-1:] + text[:1] + text[-1:] + after[:1]
        whole = before + text + after
        lines = Lines(_paired(whole) if _SURROGATE.search(seams) else whole, self.encoding, hidden=self.hidden)
        # The line that the part begins in may begin elsewhere: a line feed behind a carriage return joins it.
        lines._starts = self._starts[: max(1, bisect_right(self._starts, start - 1))]
        return lines

    def _find_line(self, line: int) -> None:
        while not self._is_complete and len(self._starts) <= line:
            self._find_next()

    def _find_offset(self, offset: int) -> None:
        while not self._is_complete and self._starts[-1] <= offset:
            self._find_next()

    def _find_next(self) -> None:
        found = _LINE_END.search(self.text, self._starts[-1])
        if found is None:
            self._is_complete = True
        else:
            self._starts.append(found.end())

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        codec, size = _CODECS[self.encoding]
        return len(text.encode(codec, "surrogatepass")) // size

    def _characters(self, line: str, units: int) -> int:
        """How many characters of a line that many units are; a unit within a character counts as all of it."""
        if line.isascii():
            return min(units, len(line))
        codec, size = _CODECS[self.encoding]
        data = line.encode(codec, "surrogatepass")
        if units * size >= len(data):
            return len(line)
        end = units * size
        if size == 1:
            while data[end] & 0xC0 == 0x80:  # within a character
                end += 1
        elif size == 2 and 0xDC <= data[end + 1] <= 0xDF:  # the second half of a pair
            end += 2
        return len(data[:end].decode(codec, "surrogatepass"))


def _paired(text: str) -> str:
    """The text with one character for what an edit left as two halves of one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")

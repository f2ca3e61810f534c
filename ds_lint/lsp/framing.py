"""The bytes of the messages that a client sends, with a bound: pygls reads as many as a header says."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import BinaryIO

LONGEST = 100_000_000  # bytes of a message: many times what an editor sends for the largest file
_LONGEST_LINE = 10_000  # of a header
_LENGTH = re.compile(rb"Content-Length: (\d+)\r\n")
_NO_MESSAGE = b"!"  # which the protocol answers with an error


class BoundedInput:
    """A stream of messages. In the place of one that claims to be too long there is one that cannot be parsed.

    What comes behind its header is read as further headers, up to the next message.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._is_refused = False

    def readline(self) -> bytes:
        """The next line of a header."""
        line = self._stream.readline(_LONGEST_LINE)
        found = _LENGTH.fullmatch(line)
        if found is None:
            return line
        self._is_refused = len(found[1].lstrip(b"0")) >= len(str(LONGEST))
        return b"Content-Length: %d\r\n" % (len(_NO_MESSAGE) if self._is_refused else int(found[1]))

    def read(self, count: int) -> bytes:
        """The body of a message."""
        if self._is_refused:
            self._is_refused = False
            return _NO_MESSAGE
        return self._stream.read(count)

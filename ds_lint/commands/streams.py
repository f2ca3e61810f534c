"""Standard input and output as bytes, also where a program that embeds ds-lint has put text in their place."""

from __future__ import annotations

import sys
from io import BytesIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO


def standard_input() -> BinaryIO:
    """What standard input has, as bytes."""
    stream = sys.stdin
    return stream.buffer if hasattr(stream, "buffer") else BytesIO(stream.read().encode(errors="surrogateescape"))


def write_standard_output(data: bytes) -> None:
    """Write bytes as they are; into a text, what is not UTF-8 as surrogates."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
    else:
        sys.stdout.write(data.decode(errors="surrogateescape"))

"""Messages of JSON-RPC over a pipe, each behind a header that says its length, as language servers speak."""

from __future__ import annotations

import json
from typing import IO, Any


def send(pipe: IO[bytes], message: dict[str, Any]) -> None:
    """Send a message."""
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    pipe.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    pipe.flush()


def receive(pipe: IO[bytes]) -> dict[str, Any] | None:
    """The next message; None where there is no more to come."""
    length = None
    while (header := pipe.readline()).strip():
        name, _, value = header.partition(b":")
        length = int(value) if name.lower() == b"content-length" else length
    if length is None:
        return None
    message: dict[str, Any] = json.loads(pipe.read(length))
    return message

"""The bytes of a named file, of any kind.

A named pipe would be waited for, a device may never end, and a text of many megabytes takes minutes and gigabytes: each
is rejected with a message. What a shell makes of ``<(command)`` is a pipe too, and is read.
"""

from __future__ import annotations

import os

MOST_BYTES = 2_000_000  # of a config, its settings and its facts; a hundred times the longest config that people keep
_MOST_IN_NOTEBOOK = 20_000_000  # with its outputs: images, most of all
_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")  # what a shell has opened
_KINDS = {0o010000: "a named pipe", 0o020000: "a device", 0o060000: "a device", 0o140000: "a socket"}


class NotReadError(OSError):
    """A file that is left unread; ``strerror`` says why."""


def bytes_of(path: str, most: int = MOST_BYTES) -> bytes:
    """The content of a file. Raises OSError."""
    kind = os.stat(path).st_mode & 0o170000
    if kind in _KINDS and path != os.devnull and not path.startswith(_PIPES):
        raise NotReadError(0, f"this is {_KINDS[kind]}; ds-lint reads regular files", path)
    most = max(most, _MOST_IN_NOTEBOOK) if path.endswith(".ipynb") else most
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise TooLargeError(path, data, most)
    return data


class TooLargeError(NotReadError):
    """A file with more bytes than ds-lint reads; ``start`` is what was read of it."""

    def __init__(self, path: str, start: bytes, most: int = MOST_BYTES) -> None:
        super().__init__(0, f"larger than {most / 1e6:g} MB, the most that ds-lint reads", path)
        self.start = start


class Files:
    """The files as they lie on the disk; an editor may have others of them."""

    __slots__ = ()

    def bytes_of(self, path: str, most: int = MOST_BYTES) -> bytes:
        """The content of a file. Raises OSError."""
        return bytes_of(path, most)

    def has(self, path: str) -> bool:
        """Whether there is a file."""
        return os.path.isfile(path)


ON_DISK = Files()

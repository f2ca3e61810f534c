"""Signs of life in files: nodes share a folder, but neither processes nor clocks."""

from __future__ import annotations

import contextlib
import os
import time

OF_DRIVER, OF_AGENT = "beat-of-driver", "beat"  # files
_EVERY = 1.0  # seconds between two beats
LOST = 60.0  # seconds without one: a file system of a network shows what others write with a delay


class Beat:
    """Writes a number that grows, because the times of files are those of clocks that may be apart."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._number = 0
        self._next = 0.0

    def go_on(self) -> None:
        """Show that this process lives, once a second."""
        now = time.monotonic()
        if now < self._next:
            return
        self._number += 1
        self._next = now + _EVERY
        with contextlib.suppress(OSError):  # the disk is full, or the run is over
            with open(f"{self._path}.new", "w", encoding="utf-8") as file:
                file.write(f"{os.getpid()}-{self._number}")
            os.replace(f"{self._path}.new", self._path)


class Watched:
    """The process behind such a file, by the clock of who watches it."""

    def __init__(self, path: str, patience: float = LOST) -> None:
        self._path = path
        self._patience = patience
        self._seen = ""
        self._since = time.monotonic()
        self.beats = 0  # that were seen

    def is_lost(self) -> bool:
        """Whether it has not shown itself for too long."""
        try:
            with open(self._path, encoding="utf-8") as file:
                seen = file.read()
        except OSError:
            seen = self._seen
        if seen != self._seen:
            self._seen, self._since = seen, time.monotonic()
            self.beats += 1
        return time.monotonic() - self._since > self._patience

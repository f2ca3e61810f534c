"""``ds-lint doctor --watch``: follow the log of a running job, and say when the run goes wrong."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from ds_lint.logs import lines, prefixes
from ds_lint.logs.causes import causes
from ds_lint.logs.course_causes import stalled
from ds_lint.logs.reading import Reader

if TYPE_CHECKING:
    import codecs
    from collections.abc import Callable
    from typing import BinaryIO

    from ds_lint.logs.cause import Cause
    from ds_lint.logs.record import Log

INTERVAL = 0.3  # seconds between two looks at the file
QUIET = 5.0  # seconds without a line after an exception: nothing handles it any more
_PIECE = 1 << 20  # bytes


class GrowingLog:
    """A log that grows."""

    def __init__(self, path: str) -> None:
        """Begin at its first line."""
        self.path = path
        self._file: BinaryIO = open(path, "rb")  # noqa: SIM115 - closed by ``close``
        self._begin()

    def _begin(self) -> None:
        self._reader = Reader(self.path, prefixes.rank_of_file(self.path))
        self._decoder: codecs.IncrementalDecoder | None = None

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self) -> bool:
        """Read what is new; whether there was something."""
        if self._is_replaced():
            self._file.close()
            self._file = open(self.path, "rb")  # noqa: SIM115 - closed by ``close``
            self._begin()
        read = False
        while data := self._file.read(_PIECE):
            read = True
            self._decoder = self._decoder or lines.decoder_of(data)
            if self._decoder is not None:
                self._reader.feed(self._decoder.decode(data))
        return read

    @property
    def log(self) -> Log:
        """What it says up to here."""
        return self._reader.so_far()

    def _is_replaced(self) -> bool:
        """Whether the file was emptied, or another one has its name: logs are rotated."""
        try:
            there, own = os.stat(self.path), os.fstat(self._file.fileno())
        except OSError:
            return False
        return there.st_size < self._file.tell() or (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino)


def follow(
    path: str, seconds: float, report: Callable[[Log, list[Cause]], int], now: Callable[[], float] = time.monotonic
) -> int:
    """Follow a log until the run goes wrong, which ``report`` tells; 0 if every rank ended well.

    ``seconds`` without a new line are a stalled run.
    """
    followed = GrowingLog(path)
    sys.stderr.write(f"Following {path}; press Ctrl-C to stop.\n")
    sys.stderr.flush()
    last = now()
    try:
        while True:
            if followed.read():
                last = now()
            log = followed.log
            waited = now() - last
            found = [one for one in causes([log]) if one.is_of_course or log.exits or waited >= QUIET]
            if found:
                return report(log, found)
            if log.ended_well and log.ended_well >= int(log.facts.get("world_size", "1")):
                return report(log, [])
            if waited >= seconds:
                return report(log, [stalled(log, waited)])
            time.sleep(INTERVAL)
    finally:
        followed.close()

"""The output of the libraries, joined in one file for the user."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_TAIL = 4 * 2**20  # bytes of each log: a rank may print without limit


def join(logs: Iterable[str], path: str) -> bool:
    """Write the ends of logs, one after the other, to a new file; False if there is nothing or no space for it."""
    written = [log for log in logs if os.path.isfile(log) and os.path.getsize(log)]
    if not written:
        return False
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as joined:
            joined.writelines(_end_of(log) for log in written)
    except OSError:  # on a full disk the verdict matters more
        remove([path])
        return False
    return True


def remove(paths: Iterable[str]) -> None:
    """Remove the files that exist."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _end_of(log: str) -> bytes:
    skipped = max(0, os.path.getsize(log) - _TAIL)
    with open(log, "rb") as file:
        file.seek(skipped)
        text = file.read(_TAIL)
    cut = f", without its first {skipped:,} bytes" if skipped else ""
    return f"==> {os.path.basename(log)}{cut}\n".encode() + text + (b"" if text.endswith(b"\n") else b"\n")

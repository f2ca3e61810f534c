"""The entries of the journal: one folder for each path that a script changes, with what was there before.

The processes of the command write them, and the driver restores from them. An entry has the file ``entry``, a file
``content`` if a file was there, and a file for each process that has written to the path.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT, FILE, DIRECTORY, LINK = "absent", "file", "folder", "link"  # what was at the path
OPEN = "open"  # mark of a process that has the file open, or was ended while it had

_JOURNAL = "journal"
_ENTRY, _CONTENT, _LOCK = "entry", "content", "lock"


class Entry:
    """What was at a path before the script changed it."""

    __slots__ = ("kind", "mode", "modified", "path", "place", "signature", "target")

    def __init__(self, place: str, path: str, kind: str, status: os.stat_result | None, target: str = "") -> None:
        self.place = place  # the folder of the entry
        self.path = path
        self.kind = kind
        self.mode = status.st_mode if status is not None else 0
        self.modified = status.st_mtime_ns if status is not None else 0
        self.signature = signature(status) if status is not None else ""
        self.target = target  # of a symbolic link; of a folder, whether it was empty

    @property
    def content(self) -> str:
        """Where the content of a file is kept."""
        return os.path.join(self.place, _CONTENT)

    def write(self) -> None:
        """Add the entry to the journal; a reader never sees half of it."""
        values = (self.path, self.kind, str(self.mode), str(self.modified), self.signature, self.target)
        _write(os.path.join(self.place, _ENTRY), "\0".join(values))

    def marks(self) -> list[str]:
        """What each process that has written to the path says: it is open, or how it left it."""
        found = []
        for name in os.listdir(self.place):
            if name.isdecimal():
                with open(os.path.join(self.place, name), encoding="utf-8") as file:
                    found.append(file.read())
        return found


def mark(folder: str, path: str, text: str) -> None:
    """Note that this process writes to a path, or how it has left it."""
    place = place_of(folder, path)
    os.makedirs(place, exist_ok=True)
    _write(os.path.join(place, str(os.getpid())), text)


def signature(status: os.stat_result) -> str:
    """Changes if the content or the mode of a file changes, or if another file takes its place."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}-{status.st_mode}"


def place_of(folder: str, path: str) -> str:
    """The folder of the entry of a path."""
    import hashlib

    digest = hashlib.sha1(os.fsencode(path), usedforsecurity=False).hexdigest()
    return os.path.join(folder, _JOURNAL, digest)


def has_entry(place: str) -> bool:
    """Whether a process has already kept what was at a path."""
    return os.path.exists(os.path.join(place, _ENTRY))


def lock_of(folder: str) -> str:
    """The file that a process locks while it adds an entry."""
    os.makedirs(os.path.join(folder, _JOURNAL), exist_ok=True)
    return os.path.join(folder, _JOURNAL, _LOCK)


def read(place: str) -> Entry | None:
    """The entry in a folder; None if it is not complete."""
    try:
        with open(os.path.join(place, _ENTRY), encoding="utf-8", errors="surrogateescape") as file:
            path, kind, mode, modified, before, target = file.read().split("\0")
    except OSError:
        return None
    entry = Entry(place, path, kind, None, target)
    entry.mode, entry.modified, entry.signature = int(mode), int(modified), before
    return entry


def read_all(folder: str) -> Iterator[Entry]:
    """The entries of a run."""
    journal = os.path.join(folder, _JOURNAL)
    for name in sorted(os.listdir(journal)) if os.path.isdir(journal) else ():
        entry = read(os.path.join(journal, name))
        if entry is not None:
            yield entry


def _write(path: str, text: str) -> None:
    new = f"{path}.new{os.getpid()}"
    with open(new, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    os.replace(new, path)

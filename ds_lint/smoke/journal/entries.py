"""The entries of the journal: one folder for each path that a script changes, with what was there before.

The processes of the command write them, and the driver restores from them. An entry has the file ``entry``, a file
``content`` if a file was there, and a file for each process that has written to the path. A run that changes what
another one has changed before copies the entry, so the journal of each is whole.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ABSENT, FILE, DIRECTORY, LINK = "absent", "file", "folder", "link"  # what was at the path
OPEN = "open"  # mark of a process that has the file open, or was ended while it had

OBSERVED = "observed-"  # and the node, in the folder of a run: a line for each Python process, also forks
_JOURNAL = "journal"
_ENTRY, _CONTENT, _LOCK = "entry", "content", "lock"
_TWIN, BESIDE = "twin", ".ds-lint-smoke-"  # a name in the journal, and part of one in the folder of the file
_INODES = "inodes"  # for each file that has several names, which entry has it
_BY = "by-"  # and the process, which may be one of several machines


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
        self.target = target  # of a symbolic link; of a folder, whether it was empty; of a file, its `twin`

    @property
    def content(self) -> str:
        """Where the content of a file is kept."""
        return os.path.join(self.place, _CONTENT)

    @property
    def twin(self) -> str:
        """A further name of a file that has several, by which it gets its place among them again; may be empty."""
        return self.target if self.kind == FILE else ""

    def is_of(self, status: os.stat_result) -> bool:
        """Whether a file is the one that was there, whatever is in it now."""
        return stat.S_ISREG(status.st_mode) and self.signature.split("-")[2] == str(status.st_ino)

    def is_kept_by_name(self, status: os.stat_result) -> bool:
        """Whether the kept content is the file itself."""
        try:
            return os.path.samestat(os.lstat(self.content), status)
        except OSError:
            return False

    def wants_twin(self, status: os.stat_result) -> None:
        """Have a twin: in the journal, or beside the file if the journal is on another file system."""
        is_here = os.stat(self.place).st_dev == status.st_dev
        beside = f"{self.path}{BESIDE}{os.path.basename(_run_of(self.place))}"
        self.target = os.path.join(self.place, _TWIN) if is_here else beside

    def write(self, twin: str = "") -> None:
        """Add the entry to the journal; a reader never sees half of it. ``twin`` is another name of the file."""
        values = (self.path, self.kind, str(self.mode), str(self.modified), self.signature, self.target)
        _write(os.path.join(self.place, _ENTRY), "\0".join(values))
        if self.twin and twin != self.twin and keep_name(twin or self.path, self.twin):
            twin = self.twin
        if twin:
            self._add_to_names()

    def _add_to_names(self) -> None:
        names = _names(_run_of(self.place), self.signature.split("-")[2])
        os.makedirs(os.path.dirname(names), exist_ok=True)
        append(names, os.fsencode(f"{self.place}\0"))

    def marks(self) -> list[str]:
        """What each process says that has written to the path or another name of it: it is open, or how it left it."""
        places = {self.place, *_places_of_names(self)}
        files = [os.path.join(place, name) for place in places for name in os.listdir(place) if name.startswith(_BY)]
        return [_read(file) for file in files]

    def add_to(self, folder: str) -> None:
        """Add the entry to the journal of another run that has none for the path."""
        place = place_of(folder, self.path)
        if has_entry(place):
            return
        os.makedirs(place, exist_ok=True)
        other = Entry(place, self.path, self.kind, None, self.target)
        other.mode, other.modified, other.signature = self.mode, self.modified, self.signature
        if self.kind == FILE:
            keep_name(self.content, other.content) or keep_copy(self.content, other.content)
        if self.twin.startswith(self.place + os.sep):
            other.target = os.path.join(place, _TWIN)
        other.write(self.twin)

    def add_marks_to(self, folder: str) -> None:
        """Tell another run how the processes of this one have left the path."""
        place, run = place_of(folder, self.path), os.path.basename(_run_of(self.place))
        for number, text in enumerate(self.marks()):
            _write(os.path.join(place, f"{_BY}{run}-{number}"), text)


def mark(folder: str, path: str, text: str) -> None:
    """Note that this process writes to a path, or how it has left it."""
    place = place_of(folder, path)
    os.makedirs(place, exist_ok=True)
    _write(os.path.join(place, f"{_BY}{os.uname().nodename}-{os.getpid()}"), text)


def other_name(folder: str, status: os.stat_result) -> Entry | None:
    """The entry of another name of a file, from before the file changed."""
    try:
        entry = read(_read(_names(folder, str(status.st_ino))).split("\0")[0])
        return entry if entry is not None and os.path.samestat(os.lstat(entry.twin), status) else None
    except OSError:
        return None


def keep_name(path: str, content: str) -> bool:
    """Keep a file by a second name; False on another file system."""
    _remove(content)
    try:
        os.link(path, content)
    except OSError:
        return False
    return True


def keep_copy(path: str, content: str) -> bool:
    """Keep a copy of a file."""
    import shutil

    new = f"{content}.new{os.getpid()}"
    shutil.copyfile(path, new)
    os.replace(new, content)  # of a process that was killed meanwhile; it may be another name of the file itself
    return True


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


def folders_above(path: str) -> Iterator[str]:
    """The folders that a path is in, the innermost first."""
    while (folder := os.path.dirname(path)) != path:
        yield folder
        path = folder


def lock_of(folder: str) -> str:
    """The file that a process locks while it adds an entry."""
    os.makedirs(os.path.join(folder, _JOURNAL), exist_ok=True)
    return os.path.join(folder, _JOURNAL, _LOCK)


def read(place: str) -> Entry | None:
    """The entry in a folder; None if it is not complete."""
    try:
        path, kind, mode, modified, before, target = _read(os.path.join(place, _ENTRY)).split("\0")
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


def observed(folder: str) -> dict[int, set[str]]:
    """The images in memory of each Python process of a run, on all nodes, by its number; see ``hook``."""
    found: dict[int, set[str]] = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if name.startswith(OBSERVED):
            for number, _, image in (line.partition(" ") for line in _read(os.path.join(folder, name)).splitlines()):
                found.setdefault(int(number), set()).add(image)
    return found


def _run_of(place: str) -> str:
    return os.path.dirname(os.path.dirname(place))


def _names(folder: str, inode: str) -> str:
    return os.path.join(folder, _JOURNAL, _INODES, inode)


def _places_of_names(entry: Entry) -> list[str]:
    """The folders of the entries of all names of a file."""
    try:
        found = _read(_names(_run_of(entry.place), entry.signature.split("-")[2])).split("\0") if entry.twin else []
    except OSError:
        return []
    return [place for place in found if os.path.isdir(place)]


def append(path: str, line: bytes) -> None:
    """Add a line to a file to which several processes add."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _write(path: str, text: str) -> None:
    new = os.path.join(os.path.dirname(path), f"new{os.getpid()}.{os.path.basename(path)}")
    with open(new, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)
    os.replace(new, path)

"""Which node restores a path: on several nodes a run has a journal for each file system that some of them do not see.

The first journal, of the paths on the file system of the run's folder, is the driver's: every node sees them. A path on
another file system of the network belongs to whichever node has it mounted in the same way; any other path belongs to
its node alone, because ``/tmp/cache`` of one node is not that of the next. On the node of the driver there is one
journal for all.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DRIVER = "node-of-driver"  # a file with the name of the node where ds-lint runs
_AREAS = "nodes"
OF_NODE, _OF_MOUNT = "node-", "mount-"
_MOUNTS = "/proc/self/mountinfo"
# File systems of a network, by the start of their names in /proc/self/mountinfo.
_OF_NETWORKS = (
    "nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "ceph", "fuse.", "afs", "glusterfs", "orangefs", "wekafs", "9p",
    "virtiofs", "panfs", "quobyte",
)  # fmt: skip


def own_node() -> str:
    """The name of this node."""
    return os.uname().nodename


def note_driver(folder: str) -> None:
    """Note in the folder of a run that ds-lint runs on this node."""
    with open(os.path.join(folder, _DRIVER), "w", encoding="utf-8") as file:
        file.write(own_node())


def driver_of(folder: str) -> str:
    """The node of the driver of a run; this one if no driver has noted its own."""
    try:
        with open(os.path.join(folder, _DRIVER), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return own_node()


def is_elsewhere(folder: str) -> bool:
    """Whether this node is another one than that of the driver."""
    return driver_of(folder) != own_node()


def place_of_processes(own_folder: str) -> str:
    """Where the processes of this node leave what is about them in a start: each node numbers its processes itself."""
    if not is_elsewhere(os.path.dirname(own_folder)):
        return own_folder
    place = os.path.join(own_folder, f"{OF_NODE}{own_node()}")
    os.makedirs(place, exist_ok=True)
    return place


def places_of_processes(own_folder: str) -> dict[str, str]:
    """Those places of all nodes, by the node; the driver's has an empty name."""
    if not os.path.isdir(own_folder):
        return {}
    names = sorted(name for name in os.listdir(own_folder) if name.startswith(OF_NODE))
    return {"": own_folder, **{name.removeprefix(OF_NODE): os.path.join(own_folder, name) for name in names}}


class Areas:
    """The journals of a run, as a process on one node sees them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._is_elsewhere = is_elsewhere(folder)
        self._device = _device(folder) if self._is_elsewhere else None

    def of(self, path: str) -> str:
        """The folder with the journal of a path."""
        if not self._is_elsewhere or _device(path) == self._device:
            return self._folder
        kind, name = _mount_of(path)
        return _area(self._folder, f"{_OF_MOUNT}{name}" if kind.startswith(_OF_NETWORKS) else _own_area())


def restored_here(folder: str) -> list[str]:
    """The folders with the journals, beside the first, that this node can restore."""
    if not os.path.isdir(os.path.join(folder, _AREAS)):
        return []
    names = {_own_area(), *(f"{_OF_MOUNT}{name}" for kind, name in _mounts() if kind.startswith(_OF_NETWORKS))}
    return [_area(folder, name) for name in sorted(names) if os.path.isdir(_area(folder, name))]


def nodes_to_restore(folder: str) -> list[str]:
    """The nodes whose own journal has entries, which no node has restored yet."""
    found = []
    place = os.path.join(folder, _AREAS)
    for name in sorted(os.listdir(place)) if os.path.isdir(place) else ():
        journal = os.path.join(_area(folder, name), "journal")
        if os.path.isdir(journal) and any(os.path.isdir(os.path.join(journal, one)) for one in os.listdir(journal)):
            found.append(name.removeprefix(OF_NODE) if name.startswith(OF_NODE) else "a node with the file system")
    return found


def _own_area() -> str:
    return f"{OF_NODE}{own_node()}"


def _area(folder: str, name: str) -> str:
    """An area ends in the name of the run, by which restoring knows the folders that the run has made."""
    return os.path.join(folder, _AREAS, name, os.path.basename(folder))


def _device(path: str) -> int | None:
    """The device of a path, or of the nearest folder above it that exists."""
    while not os.path.lexists(path):
        if path in ("", os.path.dirname(path)):
            return None
        path = os.path.dirname(path)
    try:
        return os.lstat(path).st_dev
    except OSError:  # it has just gone
        return None


def _mount_of(path: str) -> tuple[str, str]:
    """The kind of the file system of a path, and what it is known by on all nodes that mount it there."""
    device = _device(path)
    if device is not None:
        wanted = f"{os.major(device)}:{os.minor(device)}"
        for line in _lines():
            if line[2] == wanted:
                return _known_as(line)
    return "", ""


def _mounts() -> Iterator[tuple[str, str]]:
    return (_known_as(line) for line in _lines())


def _lines() -> list[list[str]]:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            return [line.split() for line in file]
    except OSError:  # macOS
        return []


def _known_as(line: list[str]) -> tuple[str, str]:
    """The kind, and a digest of the source, the root and the place of a line of mountinfo."""
    import hashlib

    kind, source = line[line.index("-") + 1 :][:2]
    text = "\0".join((kind, source, line[3], line[4]))
    return kind, hashlib.sha1(os.fsencode(text), usedforsecurity=False).hexdigest()[:16]

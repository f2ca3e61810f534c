"""The memory that a cgroup leaves to the processes in it: of a container, a job of Slurm, a unit of systemd.

A process may use no more than the smallest limit from its own cgroup up to the root. A container sees its own part of
the tree, and with cgroup v1 also the smallest limit above it (``hierarchical_memory_limit`` in ``memory.stat``).
Source: ``Documentation/admin-guide/cgroup-v2.rst`` and ``cgroup-v1/memory.rst`` of Linux.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_CGROUPS = "/proc/self/cgroup"
_MOUNTS = "/proc/self/mountinfo"
_NONE = 2**60  # bytes, and more: no limit; cgroup v1 writes the largest number of pages


class _Files(NamedTuple):
    """What one version of cgroups calls its files. ``unused`` is the key of file pages that nothing has used lately."""

    limit: str
    used: str
    unused: str


_V2 = _Files("memory.max", "memory.current", "inactive_file")
_V1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_ABOVE = "hierarchical_memory_limit"  # of cgroup v1


def limit() -> int | None:
    """The bytes that this process and the others of its cgroup may use; None if nothing limits them."""
    found = (_limits(folder, files) for folder, files in _folders())
    return min((one for limits in found for one in limits), default=None)


def left() -> int | None:
    """The bytes of the limits that are still free; file pages that nothing has used lately do not count as used."""
    found: list[int] = []
    for folder, files in _folders():
        used = _number(f"{folder}/{files.used}")
        limits = list(_limits(folder, files))
        if used is not None and limits:
            found.append(min(limits) - used + (_in_statistics(folder, files.unused) or 0))
    return min(found, default=None)


def _limits(folder: str, files: _Files) -> Iterator[int]:
    above = _in_statistics(folder, _ABOVE) if files is _V1 else None
    for one in (_number(f"{folder}/{files.limit}"), above):
        if one is not None and one < _NONE:
            yield one


def _folders() -> Iterator[tuple[str, _Files]]:
    """The cgroup of this process and those around it, as far as they are visible."""
    paths = dict(_paths())
    for kind, files in (("cgroup2", _V2), ("cgroup", _V1)):
        path, mount = paths.get(kind), _mount(kind)
        if path is None or mount is None:
            continue
        root, folder = mount
        # Without a namespace of its own, a container has the path of the host, which begins with what is mounted.
        inside = path[len(root.rstrip("/")) :] if path.startswith(root.rstrip("/") + "/") else ""
        parts = [part for part in inside.split("/") if part and part != ".."]
        for depth in range(len(parts), -1, -1):
            yield posixpath.join(folder, *parts[:depth]), files


def _paths() -> Iterator[tuple[str, str]]:
    """The path of this process's cgroup by the type of the file system that has the controller of memory."""
    for line in _text(_CGROUPS).splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "cgroup", path


def _mount(kind: str) -> tuple[str, str] | None:
    """The part of the tree that is mounted, and where."""
    for line in _text(_MOUNTS).splitlines():
        before, _, behind = line.partition(" - ")
        fields, about = before.split(), behind.split()
        if len(fields) <= 4 or len(about) <= 2 or about[0] != kind:
            continue
        if kind == "cgroup2" or "memory" in about[2].split(","):
            return fields[3], fields[4]  # the root and the mount point
    return None


def _in_statistics(folder: str, name: str) -> int | None:
    found = re.search(rf"^{name} (\d+)", _text(f"{folder}/memory.stat"), re.MULTILINE)
    return int(found[1]) if found else None


def _number(path: str) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # "max": none


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""

"""A folder that is read as data: names, sizes, small texts, and the headers of large files.

Nothing outside of it is opened by a name that a file has, such as the one in ``latest``; only regular files are.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import stat
from typing import TYPE_CHECKING, Any

from ds_lint.checkpoints import archives, safetensors
from ds_lint.checkpoints.pickled import OpcodeAllowance

if TYPE_CHECKING:
    from ds_lint.checkpoints.archives import Archive, FileStatus
    from ds_lint.checkpoints.safetensors import Header

MOST_NAMES = 200_000  # of a folder: a universal checkpoint has some for each parameter
LARGEST_TEXT = 32 << 20  # bytes of a JSON file that are read; the index of the largest models takes 200 KB
_LONGEST_LINE = 4_096  # bytes of a file that names something


class SavedPlace:
    """A folder, and what was read of it."""

    def __init__(self, path: str) -> None:
        """Read nothing yet."""
        self.path = path
        self._allowance = OpcodeAllowance()
        self._archives: dict[str, Archive] = {}
        self._names: dict[str, list[str]] = {}

    @property
    def is_read_in_part(self) -> bool:
        """Whether there was more than is read."""
        return any(
            one.status == "ok" and one.why is not None and "too large" in one.why for one in self._archives.values()
        )

    def names(self, folder: str = "") -> list[str]:
        """The names in a folder below, in the order of their numbers."""
        if folder not in self._names:
            found = []
            try:
                with os.scandir(os.path.join(self.path, folder)) as entries:
                    for entry in entries:
                        found.append(entry.name)
                        if len(found) >= MOST_NAMES:
                            break
            except OSError:
                pass
            self._names[folder] = sorted(found, key=by_numbers)
        return self._names[folder]

    def folders(self, folder: str = "") -> list[str]:
        """The names of folders below, without links to one above."""
        return [
            name
            for name in self.names(folder)
            if self.is_folder(join(folder, name)) and not self._leads_up(join(folder, name))
        ]

    def _leads_up(self, name: str) -> bool:
        path = os.path.join(self.path, name)
        if not os.path.islink(path):
            return False
        real, here = os.path.realpath(path), os.path.realpath(self.path)
        return here == real or here.startswith(real.rstrip(os.sep) + os.sep)

    def is_folder(self, name: str) -> bool:
        """Whether there is a folder of that name."""
        return is_below(name) and os.path.isdir(os.path.join(self.path, name))

    def has(self, name: str) -> bool:
        """Whether there is a regular file of that name."""
        return is_below(name) and os.path.isfile(os.path.join(self.path, name))

    def size(self, name: str) -> int | None:
        """The bytes of a file; None if it is none."""
        try:
            there = os.stat(os.path.join(self.path, name))
        except (OSError, ValueError):
            return None
        return there.st_size if stat.S_ISREG(there.st_mode) else None

    def status(self, name: str) -> FileStatus:
        """Whether a file is there and has any bytes."""
        size = self.size(name) if is_below(name) else None
        return "missing" if size is None else "ok" if size else "empty"

    def archive(self, name: str) -> Archive:
        """What a file of ``torch.save`` says."""
        if not is_below(name):
            return archives.Archive("missing", why="it is outside of the folder")
        if name not in self._archives:
            self._archives[name] = archives.read(os.path.join(self.path, name), self._allowance)
        return self._archives[name]

    def number(self, name: str, value: Any) -> float | None:
        """A number in an archive, also one in a tensor."""
        return archives.number(os.path.join(self.path, name), self.archive(name), value)

    def header(self, name: str) -> Header:
        """The header of a safetensors file."""
        if not is_below(name):
            return safetensors.Header("missing", [], "it is outside of the folder")
        return safetensors.read(os.path.join(self.path, name))

    def line(self, name: str) -> str | None:
        """The text of a file that names something, stripped; None if it is not there."""
        data = self._bytes(name, _LONGEST_LINE)
        return None if data is None else data.decode("utf-8", "replace").strip()

    def json(self, name: str) -> Any:
        """What a JSON file has; None if it is not there, or not JSON."""
        data = self._bytes(name, LARGEST_TEXT)
        try:
            return None if data is None else json.loads(data)
        except (ValueError, RecursionError):
            return None

    def _bytes(self, name: str, most: int) -> bytes | None:
        size = self.size(name) if is_below(name) else None
        if size is None:
            return None
        try:
            with open(os.path.join(self.path, name), "rb") as file:
                return file.read(most)
        except OSError:
            return None


def join(folder: str, name: str) -> str:
    """A path below the folder, with slashes."""
    return f"{folder}/{name}" if folder else name


def is_below(name: str) -> bool:
    """Whether a path stays in the folder by its words."""
    if "\0" in name or posixpath.isabs(name) or os.path.isabs(name) or len(name) > _LONGEST_LINE:
        return False
    return posixpath.normpath(name.replace("\\", "/") if os.sep == "\\" else name).split("/")[0] != ".."


def by_numbers(name: str) -> list[tuple[int, str]]:
    """A key that sorts ``rank_2`` before ``rank_10``."""
    parts = re.split(r"(\d+)", name[:255])
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in parts]

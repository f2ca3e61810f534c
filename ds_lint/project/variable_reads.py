"""Whether a file of a project reads an environment variable of a name."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from ds_lint.project.discovery import EXCLUDED, candidates

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ds_lint.source.files import Files

_ENDINGS = (
    ".bash", ".c", ".cc", ".cfg", ".cpp", ".cu", ".env", ".go", ".h", ".hpp", ".ini", ".ipynb", ".j2", ".jinja", ".js",
    ".json", ".mk", ".pl", ".ps1", ".py", ".pyx", ".rs", ".sbatch", ".sh", ".slurm", ".toml", ".ts", ".yaml", ".yml",
    ".zsh",
)  # fmt: skip
_MOST_FILES = 5000
_MOST_BYTES = 2_000_000
_LEFT_OUT = frozenset(name.rstrip("/") for name in EXCLUDED)
# What is before or after a name that is set there, and not read.
_ASSIGNS_ITEM = re.compile(rb"(?:setdefault|putenv)\s*\(\s*['\"]$")
_DECLARES = re.compile(rb"(?:\bENV|\bexport|%env|%set_env|\bunset|-x|-e)\s+$")


def read_names(directory: str, names: Iterable[str], files: Files) -> set[str]:
    """Those of these names that a file of the project reads, or may read: all of them if it has too many files."""
    left = {os.fsencode(name): re.compile(rb"(?<!\w)%s(?!\w)" % os.fsencode(name)) for name in names}
    found = set[bytes]()
    paths = list(islice(_paths(directory), _MOST_FILES + 1))
    for path in paths:
        with suppress(OSError):
            data = files.bytes_of(path, _MOST_BYTES)
            those = [name for name in left if name in data]
            found.update(name for name in those if any(_is_read(data, one) for one in left[name].finditer(data)))
    return {os.fsdecode(name) for name in (left if len(paths) > _MOST_FILES else found)}


def files_with(directory: str, words: Iterable[str], files: Files) -> Iterator[str]:
    """The files of a project, except Python, that have all of these words."""
    sought = [os.fsencode(word) for word in words]
    for path in islice(_paths(directory), _MOST_FILES):
        with suppress(OSError):
            data = b"" if path.endswith(".py") else files.bytes_of(path, _MOST_BYTES)
            if all(word in data for word in sought):
                yield path


def _paths(directory: str) -> Iterator[str]:
    return candidates(directory, lambda _: None, leaves_out=_leaves_out, wants=_may_read)


def _leaves_out(path: str, is_folder: bool) -> bool:
    name = os.path.basename(path)
    return is_folder and (name in _LEFT_OUT or (name.startswith(".") and name != ".github"))


def _may_read(name: str) -> bool:
    return name.endswith(_ENDINGS) or "." not in name or "ockerfile" in name


def _is_read(data: bytes, match: re.Match[bytes]) -> bool:
    """Whether a name is read where it occurs, and not set."""
    line = data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]
    if line.lstrip().startswith((b"#", b"//", b'"#')):
        return False
    if line.endswith((b"$", b"${")):
        return True
    if _ASSIGNS_ITEM.search(line) or _DECLARES.search(line):
        return False
    behind = data[match.end() : match.end() + 40]
    return re.match(rb"""['"]?\]?\s*(?:[:?+]?=(?!=)|:(?![-=+?]))""", behind) is None

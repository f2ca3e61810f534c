"""The files of a project, to find out whether a name leads to one."""

from __future__ import annotations

import os
import re
from functools import cached_property

from ds_lint.project.gitignore import ignores
from ds_lint.project.globs import is_below, relative

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from typing import TypeVar

    Sought = TypeVar("Sought", bound=Hashable)

_MOST_FILES = 50_000
_MOST_BYTES = 500_000  # of a file that may make others
_UNSEEN = frozenset({".git", ".hg", ".svn", "__pycache__", "node_modules", "site-packages"})
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)
# The endings of files that may make others, or say how; files without one are looked at, too.
_TEXTS = (
    ".bash", ".cfg", ".ipynb", ".job", ".markdown", ".md", ".mk", ".py", ".rst", ".sbatch", ".sh", ".slurm", ".toml",
    ".txt", ".yaml", ".yml", ".dockerfile",
)  # fmt: skip


class ProjectTree:
    """The files below a root; paths are from there, with slashes.

    ``above`` are folders over it that may belong to the project, where no repository says how far that reaches.
    """

    def __init__(self, root: str, *, is_repository: bool) -> None:
        self.root = root
        self.above = () if is_repository else ("..", "../..")
        self._folders: dict[tuple[str, ...], list[str]] = {}
        self._answers: dict[tuple[str, Hashable], bool] = {}

    @cached_property
    def files(self) -> list[str]:
        """A number of the files, in a stable order."""
        found: list[str] = []
        for here, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if name not in _UNSEEN)
            place = relative(here, self.root)
            found += (name if place == "." else f"{place}/{name}" for name in sorted(names))
            if len(found) > _MOST_FILES:
                break
        return found

    @property
    def is_whole(self) -> bool:
        """Whether all files are known."""
        return len(self.files) <= _MOST_FILES

    @cached_property
    def submodules(self) -> list[str]:
        """The folders that git takes from other repositories."""
        return _SUBMODULE.findall(self.text(".gitmodules") or "")

    def place_of(self, path: str) -> str | None:
        """A whole path as one from the root; None if it leads out of the project."""
        for root in (self.root, os.path.realpath(self.root)):
            if is_below(path, root):
                return relative(path, root)
        return None

    def has(self, place: str) -> bool:
        """Whether there is a file, a folder, or a link at a path, wherever that leads."""
        return os.path.lexists(os.path.join(self.root, place))

    def comes_from_elsewhere(self, place: str) -> bool:
        """Whether git ignores a path or takes it from another repository: then its content differs by clone."""
        return any(f"{place}/".startswith(f"{one}/") for one in self.submodules) or ignores(self.root, place)

    def text(self, place: str) -> str | None:
        """The text of a file, if it is no longer than scripts are."""
        try:
            with open(os.path.join(self.root, place), "rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError:
            return None
        return None if len(data) > _MOST_BYTES or b"\0" in data else data.decode(errors="replace")

    def folders_with(self, endings: tuple[str, ...]) -> list[str]:
        """The folders that have files with one of these endings; "" is the root."""
        if endings not in self._folders:
            folders = (place.rpartition("/")[0] for place in self.files if place.endswith(endings))
            self._folders[endings] = list(dict.fromkeys(folders))
        return self._folders[endings]

    def any_text(self, holds: Callable[[str, str, Sought], bool], sought: Sought) -> bool:
        """Whether this holds of any of the files that may make others, by its path and its text, and what is sought."""
        key = holds.__name__, sought
        if key not in self._answers:
            self._answers[key] = any(holds(path, text, sought) for path, text in self._texts)
        return self._answers[key]

    @cached_property
    def _texts(self) -> list[tuple[str, str]]:
        """The files that may make others, or say how, with their texts."""
        found = []
        for place in self.files:
            name = place.rpartition("/")[2].lower()
            if name.endswith(_TEXTS) or "." not in name or name.startswith(("dockerfile", "containerfile", "makefile")):
                found.append((place, self.text(place) or ""))
        return found

"""Where a file is in its project, for CI systems: from the root of the repository, with slashes."""

from __future__ import annotations

import os

from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

# Where GitHub Actions and GitLab check the repository out, which may be without its .git.
_CHECKOUTS = ("GITHUB_WORKSPACE", "CI_PROJECT_DIR")


class Root(Record):
    """The folder that reported paths start from, and the one that given paths start from; both absolute."""

    folder: str
    here: str
    system: ModuleType = os.path

    def relative(self, path: str) -> str | None:
        """The path from the root, with slashes; None for a file that is not below it."""
        path = self._joined(path)
        below = self.system.join(self.folder, "")
        if not self.system.normcase(path).startswith(self.system.normcase(below)):
            return None
        return self._slashed(path[len(below) :])

    def absolute(self, path: str) -> str:
        """The path from the root of the file system, with slashes."""
        return self._slashed(self._joined(path))

    def shown(self, path: str) -> str:
        """The path from the root, or from the root of the file system for a file that is not below it."""
        relative = self.relative(path)
        return self.absolute(path) if relative is None else relative

    def _joined(self, path: str) -> str:
        joined: str = self.system.normpath(self.system.join(self.here, path))
        return joined

    def _slashed(self, path: str) -> str:
        slashed: str = path.replace(self.system.sep, "/")
        return slashed


def project_root(environment: Mapping[str, str] = os.environ) -> Root:
    """The repository around the working directory, else what CI checked out, else the working directory."""
    try:
        here = os.getcwd()
    except OSError:  # it has been deleted
        here = os.sep
    folder = here
    while not os.path.exists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return Root(_checkout(here, environment), here)
        folder = parent
    return Root(folder, here)


def _checkout(here: str, environment: Mapping[str, str]) -> str:
    """The folder that CI checked out, where the working directory lies in it."""
    for name in _CHECKOUTS:
        folder = environment.get(name, "")
        if os.path.isabs(folder) and Root(folder, here).relative(os.path.join(here, "file")) is not None:
            return os.path.normpath(folder)
    return here

"""How far a project reaches."""

from __future__ import annotations

import os

from ds_lint.targets.reading import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_DESCRIBES_A_PROJECT = ("[project]", "[tool.poetry]")


def up_to_root(directory: str) -> Iterator[tuple[str, list[str]]]:
    """The directory and its parents up to the root of the project, each with the names in it."""
    try:
        here = os.path.abspath(directory)
    except OSError:  # somebody has deleted the working directory
        return
    home = os.path.expanduser("~")
    while True:
        try:
            names = os.listdir(here)
        except OSError:  # closed to us, which its parent may not be
            names = []
        yield here, names
        parent = os.path.dirname(here)
        if here in (home, parent) or _is_root(here, names):
            return
        here = parent


def _is_root(directory: str, names: Sequence[str]) -> bool:
    if ".git" in names:
        return True
    if "pyproject.toml" not in names:
        return False
    lines = text_of(os.path.join(directory, "pyproject.toml")).splitlines()
    return any(line.strip() in _DESCRIBES_A_PROJECT for line in lines)

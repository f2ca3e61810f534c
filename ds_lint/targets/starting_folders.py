"""The folders in which a run may start that a file of the project describes."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FOLDERS = 6  # a file seldom lies deeper below the folder that a run starts in


def may_lie_here(name: str, by: str) -> bool:
    """Whether a folder in which a run may start has the file that another one names, or a folder in one of these."""
    return any(
        os.path.isfile(os.path.join(folder, name)) or any(map(os.path.isfile, _in_parts(folder, name)))
        for folder in starting_folders(by)
    )


def _in_parts(folder: str, name: str) -> Iterator[str]:
    """The file in each of the folders in a folder, as a clone of another repository may lie there."""
    try:
        parts = os.listdir(folder or ".")
    except OSError:
        return
    for part in parts:
        yield os.path.join(folder, part, name)


def starting_folders(by: str) -> Iterator[str]:
    """The folder of a file and those above it, up to the root of the repository, or else the working directory."""
    here = os.getcwd()
    folder = os.path.dirname(by)
    for _ in range(MOST_FOLDERS):
        yield folder
        whole = os.path.abspath(folder)
        if os.path.exists(os.path.join(whole, ".git")) or os.path.dirname(whole) == whole:
            return
        if whole == here and not _is_below_repository(whole):
            return
        folder = os.path.join(folder, os.pardir)


def _is_below_repository(folder: str) -> bool:
    """Whether a folder above this one is the root of a repository."""
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        if os.path.exists(os.path.join(folder, ".git")):
            return True
    return False

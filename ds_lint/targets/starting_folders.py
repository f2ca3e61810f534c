"""The folders in which a run may start that a file of the project describes."""

from __future__ import annotations

import os

from ds_lint.targets.directories import up_to_root

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_FOLDERS = 6  # a file seldom lies deeper below the folder that a run starts in


def may_lie_here(name: str, by: str) -> bool:
    """Whether a folder in which a run may start has the file that another one names.

    It may also be a folder in one of the project, such as a clone of another repository.
    """
    if any(os.path.isfile(os.path.join(folder, name)) for folder in starting_folders(by)):
        return True
    folders = up_to_root(os.path.dirname(by))
    return any(os.path.isfile(os.path.join(here, part, name)) for here, parts in folders for part in parts)


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

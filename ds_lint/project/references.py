"""Where a file or folder is that another file names."""

from __future__ import annotations

import os

from ds_lint.targets.starting_folders import MOST_FOLDERS, starting_folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def located(
    name: str, by: str, *, root: str | None = None, is_there: Callable[[str], bool] = os.path.isfile
) -> str | None:
    """What a file names, which a run looks for in the folder that it starts in: that is not known.

    It may be the folder of the file, or one above it up to the root of the project; None if what is named is in none of
    them, or in several. With a ``root``, the path ``by`` starts there; else the root is that of the repository, or the
    working directory. ``is_there`` may look for a folder instead.
    """
    if not name or "\x00" in name:
        return None
    if os.path.isabs(name):
        return name if is_there(name) else None
    found: dict[str, str] = {}
    for folder in starting_folders(by) if root is None else _folders_below(by):
        place = os.path.normpath(os.path.join(folder, name))
        if root is not None and place.startswith(os.pardir):
            continue
        path = os.path.join(root or "", place)
        if is_there(path):
            found.setdefault(os.path.realpath(path), path)
    return next(iter(found.values())) if len(found) == 1 else None


def _folders_below(by: str) -> Iterator[str]:
    """The folder of a file and those above it, as paths from the root of the project, which is always one of them."""
    folder = os.path.dirname(by)
    for _ in range(MOST_FOLDERS - 1):
        if not folder:
            break
        yield folder
        folder = os.path.dirname(folder)
    yield ""

"""Put another text into a file of the user, and leave alone those that are not the user's to change here."""

from __future__ import annotations

import os

from ds_lint.diagnostics.report import Complaint
from ds_lint.source import replacement
from ds_lint.targets.directories import repository_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def rewritten(path: str, before: str, after: str, unreadable: list[Complaint]) -> bool:
    """Whether the file now holds the new text, with its old owner and mode; a link stays a link.

    A complaint goes to ``unreadable`` if it does not, because it cannot be written or no longer holds the old text.
    """
    try:
        with open(path, "rb") as file:
            if file.read() != before.encode():
                unreadable.append(Complaint(path, "the file changed during the check, so nothing was written"))
                return False
        replacement.write(path, after.encode())
    except OSError as error:
        unreadable.append(Complaint(path, f"cannot be written: {error.strerror or error}"))
        return False
    return True


def is_elsewhere(path: str, paths: Iterable[str]) -> bool:
    """Whether a file was not named, and a link or another file leads to it out of every folder that was.

    The rest of the repository is not elsewhere. ``paths`` are those of the command line.
    """
    folders = []
    for one in paths:
        if os.path.isdir(one):
            folders += [one, repository_of(os.path.join(one, os.curdir))]
        elif os.path.abspath(one) == os.path.abspath(path):
            return False
    target = os.path.realpath(path)
    roots = [os.path.join(os.path.realpath(folder), "") for folder in folders if folder is not None]
    return bool(roots) and not target.startswith(tuple(roots))


def about_elsewhere(path: str) -> str:
    """The note about a file that is left as it is."""
    return f"{path} leads out of the checked folder, to {os.path.realpath(path)}: name the file to change it"

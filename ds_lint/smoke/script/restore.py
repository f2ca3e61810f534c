"""Puts back what the user's script has changed outside the folder of the run, and removes what it has created."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.smoke.journal import entries
from ds_lint.smoke.journal.entries import ABSENT, DIRECTORY, FILE, LINK, OPEN, Entry

if TYPE_CHECKING:
    from collections.abc import Callable


class Restored(NamedTuple):
    """What became of the paths that the script has changed."""

    restored: list[str]  # they are as before
    removed: list[str]  # they were not there before
    left: list[tuple[str, str]]  # paths that are not touched, and why: the run has not written what is there now
    failed: list[tuple[str, str]]  # paths that could not be restored, and why; their content stays in the journal


def restore(folder: str) -> Restored:
    """Restore the paths in the journal of a run, after all of its processes have ended.

    It can be called again, and after a run that was killed: an entry goes once its path is as before. A file that
    others have changed after the script has closed it is not touched, nor is a new folder that holds files which the
    script has not written through Python.
    """
    folder = os.path.realpath(folder)
    result = Restored([], [], [], [])
    found = list(entries.read_all(folder))
    for entry in found:
        if entry.kind == ABSENT and os.path.basename(entry.path) == os.path.basename(folder):
            shutil.rmtree(entry.path, ignore_errors=True)  # named after the run, so nothing else is in it
    for entry in found:
        _attempt(entry, result, _remove_file)
    for entry in sorted(found, key=lambda one: one.path, reverse=True):  # what is in a folder before the folder
        _attempt(entry, result, _remove_folder)
    for entry in sorted(found, key=lambda one: one.path):  # a folder before what is in it
        _attempt(entry, result, _bring_back)
    unsettled = {path for path, _ in result.failed}
    for entry in found:
        if entry.path not in unsettled:
            shutil.rmtree(entry.place, ignore_errors=True)
    return result


def _attempt(entry: Entry, result: Restored, act: Callable[[Entry, Restored], None]) -> None:
    if any(entry.path == path for path, _ in (*result.left, *result.failed)):
        return
    try:
        act(entry, result)
    except OSError as error:
        result.failed.append((entry.path, error.strerror or str(error)))


def _remove_file(entry: Entry, result: Restored) -> None:
    """Remove a file or link that was not there, or that stands where a folder was."""
    status = _status(entry.path)
    if status is None or stat.S_ISDIR(status.st_mode) or entry.kind == FILE:
        return
    if entry.kind == LINK and stat.S_ISLNK(status.st_mode) and os.readlink(entry.path) == entry.target:
        return
    if not _is_of_run(entry, status):
        result.left.append((entry.path, "it was changed by others during the run"))
        return
    os.unlink(entry.path)
    if entry.kind == ABSENT:
        result.removed.append(entry.path)


def _remove_folder(entry: Entry, result: Restored) -> None:
    """Remove a folder that was not there, once it is empty."""
    if entry.kind == DIRECTORY or not os.path.isdir(entry.path) or os.path.islink(entry.path):
        return
    within = os.listdir(entry.path)
    if within:
        names = ", ".join(sorted(within)[:3])
        result.left.append((entry.path, f"it holds files that were not written through Python: {names}"))
        return
    os.rmdir(entry.path)
    if entry.kind == ABSENT:
        result.removed.append(entry.path)


def _bring_back(entry: Entry, result: Restored) -> None:
    """Make what was there again, unless it still is."""
    status = _status(entry.path)
    if entry.kind == DIRECTORY and status is None:
        os.mkdir(entry.path)
        os.chmod(entry.path, stat.S_IMODE(entry.mode))
    elif entry.kind == DIRECTORY and status is not None and status.st_mode != entry.mode and _is_of_run(entry, status):
        os.chmod(entry.path, stat.S_IMODE(entry.mode))
    elif entry.kind == LINK and status is None:
        os.symlink(entry.target, entry.path)
    elif entry.kind == FILE and (status is None or entries.signature(status) != entry.signature):
        if status is not None and not _is_of_run(entry, status):
            result.left.append((entry.path, "it was changed by others during the run"))
            return
        _bring_back_file(entry, status)
    else:
        return
    result.restored.append(entry.path)


def _bring_back_file(entry: Entry, status: os.stat_result | None) -> None:
    if entries.signature(os.lstat(entry.content)) == entry.signature:
        os.replace(entry.content, entry.path)  # it is the file itself, which was kept by a second name
        return
    if status is not None and stat.S_ISREG(status.st_mode):
        shutil.copyfile(entry.content, entry.path)  # owner and hard links stay
    else:
        new = f"{entry.path}.ds-lint-smoke"
        try:
            shutil.copyfile(entry.content, new)
            os.replace(new, entry.path)
        finally:
            if os.path.exists(new):
                os.unlink(new)
    os.chmod(entry.path, stat.S_IMODE(entry.mode))
    os.utime(entry.path, ns=(entry.modified, entry.modified))


def _is_of_run(entry: Entry, status: os.stat_result) -> bool:
    """Whether a process of the run has written what is at a path now.

    A process that was ended while it had the file open could not say how it left it.
    """
    marks = entry.marks()
    return OPEN in marks or entries.signature(status) in marks


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def main() -> None:
    """Restore after a run that could not do so itself: ``python -m`` this, with the folder of the run."""
    (folder,) = sys.argv[1:]
    result = restore(folder)
    for path in (*result.restored, *result.removed):
        sys.stdout.write(f"{path} is as before\n")
    for path, why in (*result.left, *result.failed):
        sys.stdout.write(f"{path} stays as it is: {why}\n")
    sys.exit(1 if result.failed else 0)


if __name__ == "__main__":
    main()

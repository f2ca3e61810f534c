"""Files of the user, written in one step: each has its old content or all of the new, whatever happens.

The new content goes into a file beside the old one, which then takes its name. A full disk, a quota or a crash on the
way leaves the old file, and no part of a new one.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

_OPENED = ("/dev/fd/", "/dev/stdout", "/dev/stderr", "/proc/")  # by a shell: written to, and never replaced
_PREFIX = ".ds-lint-"  # short, because file systems reject names with more than 255 bytes


def write(path: str, data: bytes, *, is_report: bool = False) -> None:
    """Let a file have this content; one that is there keeps its owner and mode, and a link stays a link.

    Other names of the same file (hard links) keep the old content. A report, which is as good as new, is written in
    place if only its folder cannot be changed. Raises OSError.
    """
    if _is_stream(path):
        with open(path, "wb") as stream:
            stream.write(data)
        return
    target = os.path.realpath(path)
    try:
        status = _status_of_writable(target)
        try:
            name = _beside(target, data, status)
        except PermissionError:
            if not is_report or status is None:
                raise
            _write_in_place(target, data)
            return
        try:
            os.replace(name, target)
        except OSError as error:
            os.unlink(name)
            if not is_report or error.errno != errno.EBUSY:  # mounted by itself into a container
                raise
            _write_in_place(target, data)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        error.filename, error.filename2 = path, None  # what the user knows, and not the file beside it
        raise


def create(path: str, data: bytes) -> None:
    """Make a file with this content. Raises FileExistsError if there is anything, and OSError."""
    if os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
    try:
        name = _beside(os.path.abspath(path), data, None)
        try:
            os.link(name, path)  # unlike a renaming, it replaces nothing that was made meanwhile
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.replace(name, path)
            return
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)
    except OSError as error:
        error.filename, error.filename2 = path, None
        raise


def _is_stream(path: str) -> bool:
    """Whether a path leads to something else than a file: a pipe, a terminal, a device."""
    try:
        return os.path.abspath(path).startswith(_OPENED) or not stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return False


def _status_of_writable(target: str) -> os.stat_result | None:
    """The status of a file, None if there is none; one that may not be written is not to be replaced either."""
    try:
        with open(target, "r+b") as file:
            return os.fstat(file.fileno())
    except FileNotFoundError:
        return None


def _beside(target: str, data: bytes, status: os.stat_result | None) -> str:
    """The name of a new file in the same folder with this content, and the owner and mode of the old one."""
    mode = 0o666 if status is None else 0o600  # a secret file is never open to others, not even for a moment
    folder = os.path.dirname(target)
    number = 0
    while True:
        name = os.path.join(folder, f"{_PREFIX}{os.getpid()}-{number}.tmp")
        try:
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
            break
        except FileExistsError:  # left by a process that was killed
            number += 1
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if status is not None:
            _take_after(name, status)
    except BaseException:
        os.unlink(name)
        raise
    return name


def _take_after(name: str, status: os.stat_result) -> None:
    """Give a file the owner, where that is allowed, and the mode of another."""
    if hasattr(os, "chown"):  # not on Windows
        with suppress(PermissionError):
            os.chown(name, status.st_uid, status.st_gid)
    os.chmod(name, stat.S_IMODE(status.st_mode))


def _write_in_place(target: str, data: bytes) -> None:
    """Write over a file whose folder takes no other file, once the disk has shown that it has room."""
    with open(target, "r+b") as file:
        if data and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, len(data))
        file.write(data)
        file.truncate()

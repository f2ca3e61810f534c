"""Keeps what is at a path before a Python of the user's command changes it, or refuses the change.

An audit hook sees what Python opens for writing, creates, renames and removes, before it happens; reading costs it
about a tenth of a microsecond. Writers in C++ and Rust call ``about_to_write`` through the hooks of the probe. What
programs other than Python write is not seen.
"""

from __future__ import annotations

import _thread
import atexit
import os
import stat
import sys
import time

from ds_lint.smoke.journal import areas, entries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ds_lint.smoke.journal.register import Lock, Register

MOST = 2**30  # bytes of a file that is copied before it changes

# What happens to a path: its content changes, it goes away, or it moves and may change at its new place.
WRITTEN, REMOVED, MOVED = "written", "removed", "moved"

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EMPTY = "empty"  # of a folder
_PAUSE = 1.0  # seconds between two looks at which files are closed
_DESCRIPTORS = "/proc/self/fd"
_SYSTEM = ("/proc", "/sys")
_DEVICES, _SHARED_MEMORY = "/dev/", "/dev/shm/"  # noqa: S108 - the second holds files
# Caches fill as in any run of the script. Values are where a library has its cache if the variable is not set.
_CACHES = {
    "XDG_CACHE_HOME": "~/.cache", "HF_HOME": "", "HF_HUB_CACHE": "", "HUGGINGFACE_HUB_CACHE": "", "HF_XET_CACHE": "",
    "HF_ASSETS_CACHE": "", "HF_DATASETS_CACHE": "", "HF_MODULES_CACHE": "", "TRANSFORMERS_CACHE": "", "TORCH_HOME": "",
    "TORCH_EXTENSIONS_DIR": "", "TORCHINDUCTOR_CACHE_DIR": "", "TRITON_HOME": "", "TRITON_CACHE_DIR": "~/.triton",
    "CUDA_CACHE_PATH": "~/.nv", "MPLCONFIGDIR": "~/.config/matplotlib", "NUMBA_CACHE_DIR": "",
    "NLTK_DATA": "~/nltk_data", "PYTHONPYCACHEPREFIX": "",
    "TIKTOKEN_CACHE_DIR": "", "MODELSCOPE_CACHE": "", "VLLM_CACHE_ROOT": "",
}  # fmt: skip


class RefusedError(PermissionError):
    """A change that could not be undone."""


class Journal:
    """What this process has changed outside the folder of the run."""

    def __init__(self, folder: str, *, most: int = MOST) -> None:
        self._folder = os.path.realpath(folder)
        self._areas = areas.Areas(self._folder)
        self._most = most
        self._beside = f"{entries.BESIDE}{os.path.basename(self._folder)}"  # what the journal itself puts there
        self._caches: tuple[str, ...] = ()
        self._free: tuple[str, ...] = ()
        self._set_free([folder, *_SYSTEM])
        self._look_at_caches()
        self._known: set[str] = set()  # paths whose entry is complete, whatever happens to them
        self._removed: set[str] = set()  # paths whose entry is complete if they go away
        self._written: dict[str, float] = {}  # by this process, since when; it may have them open
        self._next_look = 0.0
        self._busy: set[int] = set()  # threads that write to the journal

    def about_to(self, change: str, path: Any, descriptor: int = -1) -> None:
        """Keep what is at a path; ``descriptor`` is the folder that a relative path is relative to."""
        thread = _thread.get_ident()
        if thread in self._busy:
            return
        self._busy.add(thread)
        try:
            self._keep(change, _place(path, descriptor, follows=change == WRITTEN))
        finally:
            self._busy.discard(thread)

    def about_to_rename(self, old: Any, new: Any, old_descriptor: int = -1, new_descriptor: int = -1) -> None:
        """Keep what is at both paths, and below them."""
        thread = _thread.get_ident()
        if thread in self._busy:
            return
        self._busy.add(thread)
        try:
            before, after = _place(old, old_descriptor, follows=False), _place(new, new_descriptor, follows=False)
            for path in _tree(before):
                self._keep(MOVED, path)
                renamed = after + path[len(before) :]
                self._keep(REMOVED, renamed)
                self._mark(renamed)
        finally:
            self._busy.discard(thread)

    def about_to_change_status(self, path: Any, descriptor: int = -1) -> None:
        """Keep what is at a path; the mode or times of a file that is too large to copy change as the script wants."""
        status = _status(_place(path, descriptor, follows=True))
        if status is not None and status.st_size <= self._most:
            self.about_to(WRITTEN, path, descriptor)

    def was_there(self, path: Any) -> bool:
        """Whether something was at a path before the run; an empty folder does not count. All processes agree."""
        name = _place(path, -1, follows=True)
        if os.path.isdir(name) or not os.path.exists(name):
            self.about_to(REMOVED, name)
        else:
            self._take_over_from_others(name)
        entry = entries.read(entries.place_of(self._areas.of(name), name))
        if entry is None:
            return not self._is_in_new_folder(name)
        return entry.kind != entries.ABSENT and entry.target != _EMPTY

    def _take_over_from_others(self, path: str) -> None:
        thread = _thread.get_ident()
        self._busy.add(thread)
        try:
            area = self._areas.of(path)
            with _locked(area) as others:
                self._take_over(path, area, others)
        finally:
            self._busy.discard(thread)

    def is_free(self, path: Any) -> bool:
        """Whether a path is in the folder of the run or in a cache, which the journal leaves alone."""
        return self._is_free(f"{_place(path, -1, follows=True)}{os.sep}")

    def _is_free(self, name: str) -> bool:
        is_device = name.startswith(_DEVICES) and not name.startswith(_SHARED_MEMORY)
        return is_device or name.startswith(self._free)

    def look(self) -> None:
        """Note how each file was left that this process has written and closed, once a second."""
        now = time.monotonic()
        thread = _thread.get_ident()
        if now < self._next_look or thread in self._busy:
            return
        self._next_look = now + _PAUSE
        self._busy.add(thread)
        try:
            self.note_closed(now - _PAUSE)
        finally:
            self._busy.discard(thread)

    def note_closed(self, before: float = float("inf")) -> None:
        """Note how each file was left; one that is still open stays marked, because more may be written to it.

        So does one that was not about to be opened ``before`` then: another thread is about to open it.
        """
        opened = _opened()
        written = list(self._written.items()) if opened is not None else []
        closed = [path for path, since in written if since < before and path not in (opened or ())]
        for path in closed:
            self._written.pop(path, None)
            status = _status(path)
            if status is not None:
                entries.mark(self._areas.of(path), path, entries.signature(status))

    def forget(self) -> None:
        """A fork begins: what its parent has written is not its own."""
        self._written.clear()
        self._busy.clear()

    @property
    def has_written(self) -> bool:
        """Whether some file was not seen closed yet."""
        return bool(self._written)

    def _keep(self, change: str, path: str) -> None:
        name = f"{path}{os.sep}"
        if self._is_free(name) or self._beside in name or f"{os.sep}__pycache__{os.sep}" in name:
            return
        if path not in self._known and (change != REMOVED or path not in self._removed):
            self._look_at_caches()
            if self._is_free(name):
                return
            area = self._areas.of(path)
            with _locked(area) as others:
                self._take_over(path, area, others)
                place = entries.place_of(area, path)
                if not entries.has_entry(place):
                    self._add(place, path, change)
                if change != REMOVED:
                    self._copy_instead(path, [area, *others])
            (self._removed if change == REMOVED else self._known).add(path)
        if change == WRITTEN:
            self._mark(path)

    def _take_over(self, path: str, area: str, others: list[str]) -> None:
        """What was at a path before any run, if another run has changed it; so for a folder that another has made."""
        for folder in others:
            for one in (path, *entries.folders_above(path)):
                entry = entries.read(entries.place_of(folder, one))
                if entry is not None and (one == path or entry.kind != entries.DIRECTORY):
                    entry.add_to(area)
        self._take_over_other_name(path, area, [area, *others])

    def _take_over_other_name(self, path: str, area: str, folders: list[str]) -> None:
        """What was at a path, if it is a further name of a file that has changed by another name of it."""
        status = _status(path)
        place = entries.place_of(area, path)
        if status is None or not stat.S_ISREG(status.st_mode) or entries.has_entry(place):
            return
        found = next((one for folder in folders if (one := entries.other_name(folder, status)) is not None), None)
        if found is not None and not self._is_in_new_folder(path):
            found.path = path
            found.add_to(area)

    def _look_at_caches(self) -> None:
        """A script may name its caches before it imports the libraries."""
        caches = tuple(_caches())
        if caches != self._caches:
            self._caches = caches
            self._set_free(caches)

    def _set_free(self, folders: Iterable[str]) -> None:
        self._free += tuple(f"{os.path.realpath(path)}{os.sep}" for path in folders)

    def _mark(self, path: str) -> None:
        if self._is_free(path):
            return
        if not self._written:
            self._next_look = time.monotonic() + _PAUSE
        is_marked = path in self._written
        self._written[path] = time.monotonic()
        if not is_marked:
            entries.mark(self._areas.of(path), path, entries.OPEN)

    def _add(self, place: str, path: str, change: str) -> None:
        status = _status(path)
        os.makedirs(place, exist_ok=True)
        if status is None or self._is_in_new_folder(path):
            entries.Entry(place, path, entries.ABSENT, None).write()
        elif stat.S_ISLNK(status.st_mode):
            entries.Entry(place, path, entries.LINK, status, os.readlink(path)).write()
        elif stat.S_ISDIR(status.st_mode):
            entries.Entry(place, path, entries.DIRECTORY, status, "" if os.listdir(path) else _EMPTY).write()
        elif stat.S_ISREG(status.st_mode):
            entry = entries.Entry(place, path, entries.FILE, status)
            self._keep_content(entry, status, change)
            if status.st_nlink > 1:
                entry.wants_twin(status)
            entry.write()

    def _copy_instead(self, path: str, folders: list[str]) -> None:
        """Copy a file that was to go away, and did not: what is written to it now also changes its second name."""
        status = _status(path)
        if status is None:
            return
        for folder in folders:
            entry = entries.read(entries.place_of(folder, path))
            if entry is not None and entry.kind == entries.FILE and entry.is_kept_by_name(status):
                self._keep_content(entry, status, WRITTEN)

    def _is_in_new_folder(self, path: str) -> bool:
        """Whether the script has made the folder of a path: then nothing was there, whoever has written the file."""
        above = entries.folders_above(path)
        found = (entries.read(entries.place_of(self._areas.of(folder), folder)) for folder in above)
        return any(entry is not None and entry.kind == entries.ABSENT for entry in found)

    def _keep_content(self, entry: entries.Entry, status: os.stat_result, change: str) -> None:
        """Keep a file that goes away by a second name, if it has no other; else copy it."""
        if change == REMOVED and status.st_nlink == 1 and entries.keep_name(entry.path, entry.content):
            return
        if status.st_size > self._most:
            raise RefusedError(
                f"ds-lint smoke keeps the script from changing {entry.path}: it has {status.st_size / 2**30:.1f} GiB, "
                f"and only files up to {self._most / 2**30:.1f} GiB are copied first and restored after the run"
            )
        try:
            entries.keep_copy(entry.path, entry.content)
        except OSError as error:
            raise RefusedError(
                f"ds-lint smoke keeps the script from changing {entry.path}: it cannot be copied first: {error}"
            ) from None


class _Locked:
    """The locks of a run and of its register, in this order in all processes."""

    def __init__(self, own: Lock, register: Register) -> None:
        self._own = own
        self._register = register
        self._of_all = register.locked()

    def __enter__(self) -> list[str]:
        self._own.__enter__()
        self._of_all.__enter__()
        return self._register.others()

    def __exit__(self, *_: object) -> None:
        self._of_all.__exit__(None, None, None)
        self._own.__exit__()


def _locked(area: str) -> _Locked:
    """Keep other processes, also of other runs, from adding to their journals; gives the folders of the runs."""
    from ds_lint.smoke.journal import register

    return _Locked(register.Lock(entries.lock_of(area)), register.of(area))


_installed: Journal | None = None


def install(folder: str) -> None:
    """Watch this process and those that it forks, from now on."""
    global _installed  # noqa: PLW0603 - an audit hook stays until the process ends
    if _installed is not None:
        return
    journal = _installed = Journal(folder)
    _leave_number(folder)

    def opened(path: Any, _mode: Any, flags: Any) -> None:
        if isinstance(flags, int) and flags & _WRITING and not isinstance(path, int):
            journal.about_to(WRITTEN, path)
        if journal.has_written:
            journal.look()

    def removed(path: Any, descriptor: int = -1) -> None:
        journal.about_to(REMOVED, path, descriptor)

    def made(path: Any, _mode: Any, descriptor: int = -1) -> None:
        journal.about_to(REMOVED, path, descriptor)

    def truncated(path: Any, _length: Any) -> None:
        if not isinstance(path, int):
            journal.about_to(WRITTEN, path)

    def changed_mode(path: Any, _mode: Any, descriptor: int = -1) -> None:
        if not isinstance(path, int):
            journal.about_to_change_status(path, descriptor)

    def changed_times(path: Any, _times: Any, _ns: Any, descriptor: int = -1) -> None:
        if not isinstance(path, int):
            journal.about_to_change_status(path, descriptor)

    def linked(old: Any, new: Any, old_descriptor: int = -1, new_descriptor: int = -1) -> None:
        journal.about_to_change_status(old, old_descriptor)  # what is written by its new name changes it
        journal.about_to(WRITTEN, new, new_descriptor)

    def linked_by_name(_old: Any, new: Any, descriptor: int = -1) -> None:
        journal.about_to(WRITTEN, new, descriptor)

    def connected(database: Any) -> None:
        if isinstance(database, str) and not database.startswith((":", "file:")) and database:
            journal.about_to(WRITTEN, database)

    def bound(_socket: Any, address: Any) -> None:
        if isinstance(address, (str, bytes)) and address[:1] not in ("", b"", "\0", b"\0"):  # a socket in a file
            journal.about_to(WRITTEN, address)

    handlers: dict[str, Callable[..., None]] = {
        "open": opened,
        "os.rename": journal.about_to_rename,
        "os.remove": removed,
        "os.rmdir": removed,
        "os.mkdir": made,
        "os.truncate": truncated,
        "os.chmod": changed_mode,
        "os.utime": changed_times,
        "os.link": linked,
        "os.symlink": linked_by_name,
        "sqlite3.connect": connected,
        "socket.bind": bound,
    }
    find = handlers.get

    def hook(event: str, values: tuple[Any, ...]) -> None:
        handler = find(event)
        if handler is not None:
            handler(*values)

    atexit.register(journal.note_closed)
    os.register_at_fork(after_in_child=journal.forget)
    os.register_at_fork(after_in_child=lambda: _leave_number(folder))
    sys.addaudithook(hook)


def installed() -> Journal | None:
    """The journal of this process."""
    return _installed


def _leave_number(folder: str) -> None:
    """Note that this process is observed: its number, and where its program lies in memory.

    A fork has the same place, whatever it calls itself and whoever its parent is; a program that it starts has another.
    """
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        image = b" ".join(fields[number] for number in (23, 25, 44))
    except (OSError, IndexError):  # macOS
        image = b""
    try:
        entries.append(os.path.join(folder, f"{entries.OBSERVED}{areas.own_node()}"), b"%d %s\n" % (os.getpid(), image))
    except OSError:
        return  # a machine that does not see the folder; a full disk


def about_to_write(path: Any) -> None:
    """A writer that Python does not see is about to write to a path."""
    if _installed is not None:
        _installed.about_to(WRITTEN, path)


def _caches() -> Iterator[str]:
    for variable, usual in _CACHES.items():
        path = os.environ.get(variable) or usual
        if path:
            yield os.path.expanduser(path)


def _place(path: Any, descriptor: int, *, follows: bool) -> str:
    """The absolute path without symbolic links, but for the last name unless what it leads to is meant."""
    name = os.fsdecode(path)
    if descriptor >= 0 and not os.path.isabs(name):
        name = os.path.join(_path_of(descriptor), name)
    name = os.path.abspath(name)
    if follows:
        return os.path.realpath(name)
    folder, last = os.path.split(name)
    return os.path.join(os.path.realpath(folder), last)


def _path_of(descriptor: int) -> str:
    try:
        return os.readlink(f"{_DESCRIPTORS}/{descriptor}")
    except OSError:  # macOS
        import fcntl

        found: bytes = fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024))  # type: ignore[attr-defined,unused-ignore]
        return os.fsdecode(found.rstrip(b"\0"))


def _tree(path: str) -> Iterable[str]:
    """A path and all below it."""
    yield path
    if os.path.isdir(path) and not os.path.islink(path):
        for folder, folders, files in os.walk(path):
            for name in [*folders, *files]:
                yield os.path.join(folder, name)


def _opened() -> set[str] | None:
    """The files that this process has open; None if the system does not list them (macOS)."""
    try:
        numbers = os.listdir(_DESCRIPTORS)
    except OSError:
        return None
    return {path for number in numbers if (path := _target_of(number)) is not None}


def _target_of(number: str) -> str | None:
    try:
        return os.readlink(f"{_DESCRIPTORS}/{number}")
    except OSError:  # it was open while the folder was listed
        return None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None

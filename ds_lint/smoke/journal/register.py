"""The runs of ds-lint that journal at the same time: each asks the others what was at a path before any of them.

A run has one file in the register, which names its folder and which its ds-lint keeps locked. The system frees the lock
of a process that is killed, so a run whose file is not locked is dead. A run on another machine, which a home on a
network file system shows, is taken as alive: its lock cannot be trusted from here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat

from ds_lint.smoke.journal.entries import lock_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_NAMED = os.path.join("journal", "register")  # in the folder of a run, for the processes of its command
_SUFFIX = ".run"
_LOCK = "lock"
_ATTEMPTS = 100
_BOOT = "/proc/sys/kernel/random/boot_id"  # changes when a machine starts


class Lock:
    """A file that one process or thread holds at a time; it is free again if its process is killed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1

    def __enter__(self) -> Lock:  # noqa: PYI034 - typing.Self is Python 3.11's
        import fcntl

        while True:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)
                if self._is_at_path():
                    return self
            except BaseException:
                os.close(self._file)
                raise
            os.close(self._file)  # its holder has removed it

    def __exit__(self, *_: object) -> None:
        import fcntl

        fcntl.flock(self._file, fcntl.LOCK_UN)  # a fork of another thread may have the file open, too
        os.close(self._file)

    def takes(self) -> bool:
        """Whether the file is free, and now held by this process; it can be removed while it is."""
        import fcntl

        try:
            self._file = os.open(self._path, os.O_WRONLY)
        except OSError:
            return False
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_at_path():
                return True
        except OSError:
            pass  # another process has it
        os.close(self._file)
        return False

    def remove(self) -> None:
        """Remove the file, which this process holds."""
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _is_at_path(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except FileNotFoundError:
            return False


def has_locks(folder: str) -> bool:
    """Whether the file system of a folder has them: that of a cluster may not."""
    try:
        with Lock(lock_of(folder)):
            return True
    except OSError:
        return False


class Register:
    """The register that a run is in; without one, the run knows of no other."""

    def __init__(self, folder: str, place: str) -> None:
        self._own = os.path.realpath(folder)
        self.place = place

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the other runs from what they add to their journals, restore, or hand to each other."""
        lock = Lock(os.path.join(self.place, _LOCK)) if self.place else None
        try:
            if lock is not None:
                lock.__enter__()
        except OSError:  # a script may have changed its user or its root
            lock = None
        try:
            yield
        finally:
            if lock is not None:
                lock.__exit__()

    def others(self) -> list[str]:
        """The folders of the other runs, dead or alive; a folder that is gone is none."""
        return self._folders(self._names())

    def living(self) -> list[str]:
        """The folders of the other runs that go on; ask while the register is locked."""
        return self._folders([name for name in self._names() if not self._is_dead(name)])

    def _folders(self, names: list[str]) -> list[str]:
        found = map(self._folder_in, names)
        return [folder for folder in found if folder != self._own and os.path.isdir(folder)]

    def _is_dead(self, name: str) -> bool:
        lock = Lock(os.path.join(self.place, name))
        is_dead = self._is_of_this_machine(name) and lock.takes()
        if is_dead:
            lock.__exit__()
        return is_dead

    @contextlib.contextmanager
    def dead(self) -> Iterator[list[str]]:
        """The folders of runs whose ds-lint was killed; this process holds them meanwhile.

        Those whose folder is gone afterwards leave the register.
        """
        held: dict[str, Lock] = {}
        with self.locked():
            for name in self._names():
                lock = Lock(os.path.join(self.place, name))
                if self._folder_in(name) != self._own and self._is_of_this_machine(name) and lock.takes():
                    held[name] = lock
        try:
            yield [self._folder_in(name) for name in held]
        finally:
            for name, lock in held.items():
                if not os.path.isdir(self._folder_in(name)):
                    lock.remove()
                lock.__exit__()

    def _names(self) -> list[str]:
        try:
            return sorted(name for name in os.listdir(self.place) if name.endswith(_SUFFIX)) if self.place else []
        except OSError:
            return []

    def _folder_in(self, name: str) -> str:
        return self._read(name)[0]

    def _is_of_this_machine(self, name: str) -> bool:
        _, host, boot = self._read(name)
        return host == os.uname().nodename or (boot != "" and boot == _boot())

    def _read(self, name: str) -> tuple[str, str, str]:
        try:
            with open(os.path.join(self.place, name), encoding="utf-8", errors="surrogateescape", newline="") as file:
                folder, host, boot = file.read().split("\0")
        except (OSError, ValueError):  # it has just ended
            return "", "", ""
        return folder, host, boot


def of(folder: str) -> Register:
    """The register that a run has entered, from the folder of the run."""
    try:
        with open(os.path.join(folder, _NAMED), encoding="utf-8", errors="surrogateescape", newline="") as file:
            return Register(folder, file.read())
    except OSError:
        return Register(folder, "")


def goes_on(folder: str) -> bool:
    """Whether the ds-lint of a run is alive."""
    own = os.path.realpath(folder)
    place = of(own).place
    return own in Register("", place).living() if place else False


@contextlib.contextmanager
def entered(folder: str, places: list[str] | None = None) -> Iterator[Register]:
    """Be in the register with a run while this process lives; ``places`` are tried in turn. OSError if none will do.

    A run leaves the register at the end unless its folder is still there: then it has the only copy of some file, and
    the next run tries again to restore it.
    """
    own = os.path.realpath(folder)
    found = next((found for one in places or usual_places(own) if (found := _enter(own, one)) is not None), None)
    if found is None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK), own)
    register, lock = found
    try:
        yield register
    finally:
        with register.locked():
            if not os.path.isdir(own):
                lock.remove()
            lock.__exit__()
        _put_away(register.place)


def usual_places(folder: str) -> list[str]:
    """Where the register is: the same place whatever HOME, TMPDIR and the working directory of a run are."""
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container whose user has no name
        home = os.path.expanduser("~")
    of_user = f"ds-lint-runs-{os.getuid()}"
    return [
        os.path.join(home, ".ds-lint-runs"),
        os.path.join("/tmp", of_user),  # noqa: S108 - one that others have made is not used
        os.path.join(os.path.dirname(folder), of_user),
    ]


def _enter(own: str, place: str) -> tuple[Register, Lock] | None:
    """Enter a register; None if its folder is not of this user alone, or its file system has no locks."""
    for _ in range(_ATTEMPTS):
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(place, 0o700)
            status = os.lstat(place)
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
                return None
            with Lock(os.path.join(place, _LOCK)):
                path = os.path.join(place, os.path.basename(own) + _SUFFIX)
                lock = Lock(path).__enter__()
                try:
                    _write(path, f"{own}\0{os.uname().nodename}\0{_boot()}")
                    os.makedirs(os.path.join(own, "journal"), exist_ok=True)
                    _write(os.path.join(own, _NAMED), place)
                except OSError:  # a full disk
                    lock.remove()
                    lock.__exit__()
                    return None
        except FileNotFoundError:  # the last run in it has ended between two of these lines, and has removed it
            continue
        except OSError:
            return None
        return Register(own, place), lock
    return None


def _put_away(place: str) -> None:
    """Remove the register if no run is in it."""
    lock = Lock(os.path.join(place, _LOCK))
    if lock.takes():
        if set(_listed(place)) == {_LOCK}:
            lock.remove()
            with contextlib.suppress(OSError):
                os.rmdir(place)
        lock.__exit__()


def _listed(place: str) -> list[str]:
    try:
        return os.listdir(place)
    except OSError:
        return []


def _boot() -> str:
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # macOS
        return ""


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)

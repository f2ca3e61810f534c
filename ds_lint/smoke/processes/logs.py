"""The output of the libraries, joined in one file for the user; the newest are kept in the cache of the user."""

from __future__ import annotations

import contextlib
import glob
import os
from typing import TYPE_CHECKING

from ds_lint.smoke.processes.kept_files import user_cache

if TYPE_CHECKING:
    from collections.abc import Iterable

_RUNS = 20  # whose logs are kept
_TAIL = 4 * 2**20  # bytes of each log: a rank may print without limit


def keep(logs: Iterable[str], run: str, number: int) -> str | None:
    """Join logs where they stay: in the cache of the user, or else beside ``run``, the folder of the run."""
    logs = list(logs)
    for folder in (kept_folder(), os.path.dirname(run)):
        path = os.path.join(folder, f"{os.path.basename(run)}-{number}.log")
        with contextlib.suppress(OSError):
            if os.path.isabs(folder):  # a user may have no home
                os.makedirs(folder, mode=0o700, exist_ok=True)
                if join(logs, path):
                    _forget_old(run)
                    return path
    return None


def of_run(run: str) -> list[str]:
    """The logs that are kept of a run."""
    name = f"{glob.escape(os.path.basename(run))}-*.log"
    return [path for folder in (kept_folder(), os.path.dirname(run)) for path in glob.glob(os.path.join(folder, name))]


def kept_folder() -> str:
    """Where logs stay after a run."""
    return os.path.join(user_cache(), "ds-lint", "logs")


def _forget_old(run: str) -> None:
    """Remove the logs of all but this run and the newest others, which have been read or never will be."""
    newest: dict[str, float] = {}
    logs = glob.glob(os.path.join(glob.escape(kept_folder()), "*.log"))
    for log in logs:
        with contextlib.suppress(OSError):  # another run removes it, too
            newest[_run_of(log)] = max(newest.get(_run_of(log), 0.0), os.stat(log).st_mtime)
    newest.pop(os.path.basename(run), None)
    old = sorted(newest, key=newest.__getitem__, reverse=True)[_RUNS - 1 :]
    remove(log for log in logs if _run_of(log) in old)


def _run_of(log: str) -> str:
    return os.path.basename(log).rpartition("-")[0]


def join(logs: Iterable[str], path: str) -> bool:
    """Write the ends of logs, one after the other, to a new file; False if there is nothing or no space for it."""
    written = [log for log in logs if os.path.isfile(log) and os.path.getsize(log)]
    if not written:
        return False
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as joined:
            joined.writelines(_end_of(log) for log in written)
    except OSError:  # on a full disk the verdict matters more
        remove([path])
        return False
    return True


def remove(paths: Iterable[str]) -> None:
    """Remove the files that exist."""
    for path in paths:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _end_of(log: str) -> bytes:
    skipped = max(0, os.path.getsize(log) - _TAIL)
    with open(log, "rb") as file:
        file.seek(skipped)
        text = file.read(_TAIL)
    cut = f", without its first {skipped:,} bytes" if skipped else ""
    return f"==> {os.path.basename(log)}{cut}\n".encode() + text + (b"" if text.endswith(b"\n") else b"\n")

"""What an exception of a rank is about besides the config, by its type and its errno: the machine, or another rank."""

from __future__ import annotations

import errno
import subprocess
import sys

_BY_ERRNO = {
    errno.ENOSPC: "disk",
    errno.EDQUOT: "disk",
    errno.ENOMEM: "memory",
    errno.EACCES: "file",
    errno.EROFS: "file",
    errno.EADDRINUSE: "port",
    errno.EMFILE: "open files",
    errno.ENFILE: "open files",
    errno.ECONNRESET: "peer",
    errno.EPIPE: "peer",
}


def cause_of(error: BaseException) -> str | None:
    """The cause of an exception; None where its type does not tell."""
    if isinstance(error, OSError) and error.errno is not None:
        return _BY_ERRNO.get(error.errno)
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, ModuleNotFoundError):
        return "package"
    # _run_ninja_build in torch/utils/cpp_extension.py raises a RuntimeError from it.
    if isinstance(error, subprocess.CalledProcessError) or isinstance(error.__cause__, subprocess.CalledProcessError):
        return "compiler"
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    if isinstance(error, torch.OutOfMemoryError):
        return "memory"
    return "peer" if isinstance(error, _of_peers(torch.distributed)) else None


def _of_peers(distributed: object) -> tuple[type[BaseException], ...]:
    """NCCL's errors and those of the store, which a torch without distributed does not have."""
    names = ("DistBackendError", "DistStoreError")
    return tuple(getattr(distributed, name) for name in names if hasattr(distributed, name))

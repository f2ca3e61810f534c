"""The locks of builds: a killed build leaves its lock, and every later build silently waits for it."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_FOLDER = "TORCH_EXTENSIONS_DIR"
_LONGEST_BUILD = 3600.0  # seconds, if the system does not tell which process has a file open


def settle() -> list[str]:
    """Let ranks build in the usual folder of torch, with any home; the paths of the locks of DeepSpeed's ops."""
    from deepspeed.ops.op_builder.all_ops import ALL_OPS

    builds = os.environ[_FOLDER] = folder()
    names = {builder.name for builder in ALL_OPS.values() if builder is not None}
    return [os.path.join(builds, name, "lock") for name in sorted(names)]


def abandoned() -> dict[str, str]:
    """The locks that killed builds have left in the usual folder of torch, by the op."""
    found = stale(glob.glob(os.path.join(glob.escape(folder()), "*", "lock")))
    return {os.path.basename(os.path.dirname(lock)): lock for lock in found}


def folder() -> str:
    """The folder in which torch builds extensions (``_get_build_directory`` in torch/utils/cpp_extension.py)."""
    if _FOLDER in os.environ:
        return os.environ[_FOLDER]
    import torch
    from torch.utils.cpp_extension import get_default_build_root

    hip, cuda = getattr(torch.version, "hip", None), torch.version.cuda
    backend = f"rocm{hip.replace('.', '')}" if hip else f"cu{cuda.replace('.', '')}" if cuda else "cpu"
    python = f"py{sys.version_info.major}{sys.version_info.minor}{getattr(sys, 'abiflags', '')}"
    return os.path.join(get_default_build_root(), f"{python}_{backend}")


def stale(locks: Iterable[str]) -> list[str]:
    """The locks that exist and that no process holds: a builder keeps its file open (torch/utils/file_baton.py)."""
    return [lock for lock in locks if os.path.exists(lock) and not _is_held(lock)]


def remove(locks: Iterable[str]) -> None:
    """Remove locks."""
    for lock in locks:
        with contextlib.suppress(OSError):
            os.unlink(lock)


def _is_held(lock: str) -> bool:
    if not os.path.isdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            return time.time() - os.stat(lock).st_mtime < _LONGEST_BUILD
        return False
    place = os.path.realpath(lock)
    for descriptor in glob.iglob("/proc/[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if os.readlink(descriptor) == place:
                return True
    return False

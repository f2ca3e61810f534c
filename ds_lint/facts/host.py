"""The machine under the GPUs: how much memory it has, and whether DeepSpeed can build what reads and writes NVMe."""

from __future__ import annotations

import os
import re
import sys

from ds_lint.facts import cgroups
from ds_lint.facts.unreadable import UnreadableFact

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_MOST = 2**60  # more than a machine has
_MEMINFO = "/proc/meminfo"
_SHARED = "/dev/shm"  # noqa: S108 - on Linux


def size(text: str) -> int:
    """The bytes that ``512GB``, ``512 GiB`` or ``1.5T`` mean; memory is sold in powers of 1024, whatever is written."""
    found = _SIZE.fullmatch(text.strip())
    bytes_ = float(found[1]) * _UNITS[found[2].upper()] if found else 0
    if not 1 <= bytes_ <= _MOST:
        raise UnreadableFact(f"{text!r} is not a size of memory such as 512GB")
    return int(bytes_)


def memory() -> int | None:
    """The bytes of memory that processes on this machine, container or job may use; None where nothing tells."""
    known = [amount for amount in (_in_meminfo("MemTotal"), cgroups.limit()) if amount is not None]
    return min(known, default=None)


def free_memory() -> int | None:
    """The bytes that processes may take beside those that run; None where nothing tells."""
    known = [amount for amount in (_in_meminfo("MemAvailable"), cgroups.left()) if amount is not None]
    return min(known, default=None)


def shared_memory() -> int | None:
    """The bytes of /dev/shm, through which ranks and data loaders exchange tensors; None where there is none."""
    if sys.platform == "win32":
        return None
    try:
        status = os.statvfs(_SHARED)
    except OSError:
        return None
    return status.f_frsize * status.f_blocks


def has_async_io() -> bool | None:
    """Whether DeepSpeed has what it uses NVMe with, or can build it; None where there is no compiler to ask.

    ``AsyncIOBuilder.is_compatible`` in ``op_builder/async_io.py`` links a program with ``-laio``.
    """
    if _is_built():
        return True
    from shutil import which
    from subprocess import SubprocessError, run

    compiler = which("cc") or which("gcc") or which("c++")
    if compiler is None:
        return None
    flags = f"{os.environ.get('CFLAGS', '')} {os.environ.get('LDFLAGS', '')}".split()
    for library in ("libaio.so", "libaio.a"):
        folders = [flag[2:] for flag in flags if flag.startswith("-L")]
        if any(os.path.exists(os.path.join(folder, library)) for folder in folders):
            return True
        try:
            question = [compiler, f"-print-file-name={library}"]
            answer = run(question, capture_output=True, encoding="utf-8", errors="replace", timeout=10, check=True)  # noqa: S603 - fixed words
        except (OSError, SubprocessError):
            return None
        if os.path.isabs(answer.stdout.strip()):  # only the name where there is no such file
            return True
    return False


def _is_built() -> bool:
    """Whether the DeepSpeed beside ds-lint was installed with its operators built (``DS_BUILD_AIO=1``)."""
    from importlib.util import find_spec

    found = find_spec("deepspeed")  # imports nothing
    packages = found.submodule_search_locations if found is not None else None
    folders = [os.path.join(package, "ops", "aio") for package in packages or ()]
    return any(
        name.startswith("async_io_op") for folder in folders if os.path.isdir(folder) for name in os.listdir(folder)
    )


def _in_meminfo(name: str) -> int | None:
    try:
        with open(_MEMINFO, encoding="ascii") as file:
            found = re.search(rf"^{name}:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None

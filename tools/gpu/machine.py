"""The machine that is measured: its card and driver as nvidia-smi names them, and the installed releases."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.gpu.setting import Result

_LIBRARIES = ("torch", "triton", "deepspeed", "transformers", "accelerate", "peft")
_MIB = 2**20


def describe(*, rehearses: bool) -> Result:
    """The machine, as each result file names it; ``gpu`` is null in a rehearsal."""
    card = None if rehearses else _card()
    return {
        "gpu": card["name"] if card else None,
        "gpu_bytes": card["bytes"] if card else None,
        "driver": card["driver"] if card else None,
        "cores": os.cpu_count(),
        "host_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python": platform.python_version(),
        "versions": {name: found for name in _LIBRARIES if (found := _version(name)) is not None},
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "rehearsal": rehearses,
    }


def _card() -> Result | None:
    """The first GPU; None if there is no driver."""
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=30, check=True,
        ).stdout  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    name, memory, driver = (part.strip() for part in answer.splitlines()[0].split(","))
    return {"name": name, "bytes": int(memory) * _MIB, "driver": driver}


def _version(library: str) -> str | None:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return None

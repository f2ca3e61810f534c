"""A cgroup of the kernel, which counts the memory of all processes that enter it."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class Cgroup:
    """A cgroup that lasts for a ``with`` block; without the right to make one, nothing is counted."""

    def __init__(self, name: str) -> None:
        self.is_v1 = _V1.is_dir()
        self.path = (_V1 if self.is_v1 else _V2) / name

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self.path.mkdir()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for _ in range(100):
            with contextlib.suppress(OSError):  # a process is still ending
                self.path.rmdir()
            if not self.path.exists():
                return
            time.sleep(0.05)

    def enter(self) -> None:
        """Let this process be counted, and all that it starts."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")

    def processes(self) -> list[int]:
        """Those that are in it."""
        try:
            return [int(line) for line in (self.path / "cgroup.procs").read_text(encoding="ascii").split()]
        except OSError:
            return []

    def most(self) -> int | None:
        """The most bytes at once, with the page cache; None where nothing is counted."""
        name = "memory.max_usage_in_bytes" if self.is_v1 else "memory.peak"
        try:
            return int((self.path / name).read_text(encoding="ascii"))
        except OSError:
            return None

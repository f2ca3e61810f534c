"""What ranks leave in shared memory when they are ended, and how it is removed."""

from __future__ import annotations

import contextlib
import glob
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where Linux has it; DeepSpeed and torch name their segments there


def port_of(pid: int) -> int:
    """The MASTER_PORT of the ranks of a pool: nobody listens there, DeepSpeed names its segments by it."""
    return 20000 + pid % 40000


def sweep(pids: Iterable[int], port: int | None = None) -> None:
    """Remove the segments of these processes, and those of ``deepspeed_shm_comm`` for a port.

    Names: ``torch_<pid>_*`` in torch, ``deepspeed_allreduce_buffer_<uid>_<address>_<port>`` in csrc/cpu/comm/shm.cpp.
    """
    patterns = [f"torch_{pid}_*" for pid in pids]
    if port is not None:
        patterns.append(f"deepspeed_allreduce_buffer_{os.getuid()}_*_{port}*")
    for pattern in patterns:
        for segment in glob.glob(os.path.join(SHARED_MEMORY, pattern)):
            with contextlib.suppress(OSError):
                os.unlink(segment)

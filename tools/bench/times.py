"""The time that a command takes: on the clock, and of the processors for all its processes."""

from __future__ import annotations

import resource
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Time(NamedTuple):
    """Seconds of one run, and those of the processors, of all its processes."""

    wall: float
    cpu: float


def median(times: list[Time]) -> Time:
    """The median of each column."""
    return Time(*(statistics.median(column) for column in zip(*times, strict=True)))


def timed(run: Callable[[], None]) -> Time:
    """The time of one run, whose processes have ended when it returns."""
    began, used = time.perf_counter(), _cpu()
    run()
    return Time(time.perf_counter() - began, _cpu() - used)


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

"""How long the collectives of one step take on this rank, from torch's profiler.

On CPUs they are the ranges that Gloo records from the start of a collective to its end, on GPUs the kernels of NCCL.
"""

from __future__ import annotations

import re
from typing import Any

import torch

from ds_lint.smoke.records.engine_trace import Communicated

_OF_COLLECTIVES = re.compile(r"gloo:(\w+)|nccl(?:Dev)?Kernel_?([A-Za-z]+)")
_MICROSECONDS = 1e-6


class CommunicationProfile:
    """The profile of one optimizer step; it costs time, so it is made only on request."""

    def __init__(self, step: int) -> None:
        self.step = step  # from 1
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_initialized():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.start()

    def end(self) -> Communicated:
        """The step is over."""
        self._profile.stop()
        ranges: list[tuple[float, float]] = []
        seconds: dict[str, float] = {}
        events: list[Any] = list(self._profile.events() or ())
        for event in events:
            if (found := _OF_COLLECTIVES.match(event.name)) is not None:
                kind, (start, end) = found[1] or found[2], (event.time_range.start, event.time_range.end)
                seconds[kind] = seconds.get(kind, 0.0) + (end - start) * _MICROSECONDS
                ranges.append((start, end))
        return Communicated(self.step, covered(ranges) * _MICROSECONDS, seconds)


def covered(ranges: list[tuple[float, float]]) -> float:
    """How long at least one of some ranges lasts, which may overlap."""
    whole, until = 0.0, float("-inf")
    for start, end in sorted(ranges):
        whole += max(0.0, end - max(start, until))
        until = max(until, end)
    return whole

"""The axis of a chart: where its values lie, and the round numbers that are written beside it."""

from __future__ import annotations

from math import ceil, floor, log10
from typing import NamedTuple

_KIB, _MIB, _GIB = 2**10, 2**20, 2**30
_INTERVALS, _FEW = 6, 4  # at most, between the ticks; fewer if their labels are long
_LONG = 10_000  # in the unit of the axis
_FINEST = 0.001  # from tick to tick, in the unit of the axis


class Scale(NamedTuple):
    """An axis from 0 to ``longest`` bytes, beyond which everything is cut off, and the bytes from tick to tick."""

    longest: float
    step: float

    def share(self, size: float) -> float:
        """Where so many bytes are, as a part of the axis."""
        return min(size / self.longest, 1)

    def cuts(self, size: float) -> bool:
        """Whether so many bytes are beyond the axis."""
        return size > self.longest

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round numbers of bytes, with their labels; the first has the unit."""
        size, name = _unit(self.longest)
        found = [(0.0, f"0 {name}")]
        while (at := len(found) * self.step) <= self.longest:
            found.append((at, f"{round(at / size, 6):,g}" if at < 10**6 * size else f"{at / size:,.0f}"))
        return found


def scale_of(longest: float) -> Scale:
    """An axis for so many bytes: from tick to tick are 1, 2 or 5 times a power of 10, in the unit of the axis."""
    size, _ = _unit(longest)
    intervals = _INTERVALS if longest < _LONG * size else _FEW
    return Scale(longest, _round_step(max(longest / intervals / size, _FINEST)) * size)


def round_numbers(least: float, most: float, intervals: int) -> list[float]:
    """Round numbers from the last one that is not above ``least`` to the first one that is not below ``most``."""
    if least == most:
        least, most = (0.0, most) if most > 0 else (least, 0.0) if least < 0 else (0.0, 1.0)
    step = _round_step((most - least) / intervals)
    first, last = floor(least / step + 1e-9), ceil(most / step - 1e-9)
    return [round(number * step, 12 - floor(log10(step))) for number in range(first, last + 1)]


def _round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of 10 that is not below ``least``."""
    power = 10.0 ** floor(log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _unit(longest: float) -> tuple[int, str]:
    """The unit of an axis, as figures of that size have it."""
    if longest >= _GIB / 10:
        return _GIB, "GiB"
    return (_MIB, "MiB") if longest >= _MIB else (_KIB, "KiB")

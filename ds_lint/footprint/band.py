"""A quantity that is known between bounds."""

from __future__ import annotations

from typing import NamedTuple


class Band(NamedTuple):
    """The least that it can be, what it is likely to be, and the most; equal where it is known exactly."""

    least: float
    likely: float
    most: float

    def plus(self, other: Band) -> Band:
        """The sum of two quantities."""
        return Band(self.least + other.least, self.likely + other.likely, self.most + other.most)

    def times(self, factor: float) -> Band:
        """The quantity so many times."""
        return Band(self.least * factor, self.likely * factor, self.most * factor)

    def at_least(self, other: Band) -> Band:
        """The larger of two quantities, bound by bound."""
        return Band(max(self.least, other.least), max(self.likely, other.likely), max(self.most, other.most))

    def within(self, factor: float) -> Band:
        """The quantity where it may be so many times as much or as little."""
        return Band(self.least / factor, self.likely, self.most * factor)

    @property
    def is_exact(self) -> bool:
        """Whether all three bounds are the same."""
        return self.least == self.most


def exactly(value: float) -> Band:
    """A quantity that is known."""
    return Band(value, value, value)


NOTHING = exactly(0)


def total(bands: list[Band]) -> Band:
    """The sum of quantities; nothing if there are none."""
    found = NOTHING
    for band in bands:
        found = found.plus(band)
    return found

"""A published figure beside the band of ``ds-lint memory``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tools.published.runs import band

if TYPE_CHECKING:
    from ds_lint.footprint.band import Band
    from tools.published.runs import PublishedRun

FAR = 0.15  # of what was measured, beyond which the likely figure is far from it
_PRINTED = 0.005  # how far a figure may be off that is printed with three digits


class Comparison(NamedTuple):
    """A run with a published figure, and what is said of it."""

    run: PublishedRun
    band: Band

    @property
    def is_inside(self) -> bool:
        """Whether the figure is within the band; of a run that was out of memory, whether it may be."""
        measured = self.run.measured
        if self.run.fails:
            return self.band.most > measured
        is_enough = self.run.is_lower_bound or self.band.most * (1 + _PRINTED) >= measured
        return self.band.least * (1 - _PRINTED) <= measured and is_enough

    @property
    def off(self) -> float:
        """How far the likely figure is from the one that was measured, as a share of it."""
        return self.band.likely / self.run.measured - 1

    @property
    def is_near(self) -> bool:
        """Whether the likely figure is near."""
        return abs(self.off) <= FAR


def compare(run: PublishedRun) -> Comparison:
    """A run beside what is said of it."""
    return Comparison(run, band(run))

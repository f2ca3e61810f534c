"""What ``ds-lint memory`` answers about one run: what it takes, whether that fits, and what makes it fit."""

from __future__ import annotations

from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.capacity import Capacity, Fit
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.largest import LargestSizes
    from ds_lint.footprint.open_facts import OpenFact
    from ds_lint.footprint.sweep import SweepRow


class Answer(NamedTuple):
    """The answer about one run; ``left_out`` says what the figures do not include, and why."""

    name: str  # of the config
    launch: str | None  # that starts it, in words
    model: str  # in words
    gpu_name: str  # in words
    estimate: Estimate
    capacity: Capacity
    advice: tuple[Advice, ...] = ()
    least_ranks: Advice | None = None  # that it needs, if no advice is within reach
    rows: tuple[SweepRow, ...] = ()  # of ``--sweep``
    left_out: tuple[str, ...] = ()
    open_facts: tuple[OpenFact, ...] = ()  # which make the bands wider
    largest: LargestSizes | None = None  # of ``--largest``
    assumed: tuple[str, ...] | None = None  # of a run without a config, whose rows alone are the answer

    @property
    def fit(self) -> Fit:
        """Whether the run fits; one of which something is assumed may fit if another answer to that does."""
        found, room = self.fit_of(self.estimate), self.capacity.gpu
        if found.gpu is False and room is not None:
            others = (one.gpu.least for fact in self.open_facts for one in fact.answers)
            found = found._replace(gpu=None) if min(others, default=room + 1) <= room else found
        return found

    def fit_of(self, needed: Estimate) -> Fit:
        """Whether a run fits that is estimated with the same facts; what is left out lies on the GPU."""
        found = self.capacity.fit(needed)
        return found._replace(gpu=None) if found.gpu and self.left_out else found

    def verdict_of(self, needed: Estimate) -> bool | None:
        """Whether a run fits on both the GPU and the host, as far as their memory is known."""
        there = (self.capacity.gpu, self.capacity.host)
        known = [one for one, room in zip(self.fit_of(needed), there, strict=True) if room is not None]
        return False if False in known else all(known) or None

    @property
    def surely_fails(self) -> bool:
        """Whether the least that the run takes is too much; without a config, that of every row."""
        if self.assumed is not None:
            return all(False in self.fit_of(row.estimate) for row in self.rows)
        return False in self.fit

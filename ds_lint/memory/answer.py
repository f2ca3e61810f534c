"""What ``ds-lint memory`` answers about one run: what it takes, whether that fits, and what makes it fit."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory.capacity import Fit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.memory.capacity import Capacity
    from ds_lint.memory.estimate import Estimate


class Answer(NamedTuple):
    """The answer about one run; ``left_out`` says what the figures do not include, and why."""

    name: str  # of the config
    launch: str | None  # that starts it, in words
    model: str  # in words
    gpu_name: str  # in words
    estimate: Estimate
    capacity: Capacity
    left_out: tuple[str, ...] = ()

    @property
    def fit(self) -> Fit:
        """Whether the run fits; that is open as long as something is left out."""
        found = self.capacity.fit(self.estimate)
        return Fit(*(None if one and self.left_out else one for one in found))

    @property
    def surely_fails(self) -> bool:
        """Whether the least that the run takes is too much."""
        return False in self.fit

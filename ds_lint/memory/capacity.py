"""Whether a run fits: what it takes against the memory of a GPU and of a host."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.memory.estimate import fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from ds_lint.facts import Facts
    from ds_lint.memory.band import Band
    from ds_lint.memory.estimate import Estimate

    Bound: TypeAlias = Literal["least", "likely", "most"]


class Capacity(NamedTuple):
    """The bytes of one GPU and of one node's host memory; None if they are not known."""

    gpu: int | None = None
    host: int | None = None

    def fit(self, needed: Estimate) -> Fit:
        """Whether a run fits."""
        return Fit(fits(needed.gpu_bytes, self.gpu), fits(needed.host_bytes, self.host))

    def holds(self, needed: Estimate, bound: Bound = "most") -> bool:
        """Whether what a run takes at the most, or by another bound, is there, as far as that is known."""
        return all(_is_enough(getattr(band, bound), known) for band, known in self._pairs(needed))

    def _pairs(self, needed: Estimate) -> tuple[tuple[Band, int | None], ...]:
        return (needed.gpu_bytes, self.gpu), (needed.host_bytes, self.host)


class Fit(NamedTuple):
    """Whether a run fits on the GPU and in host memory: True if the most does, False if the least does not."""

    gpu: bool | None
    host: bool | None


def capacity(facts: Facts) -> Capacity:
    """What the facts tell of the machine."""
    return Capacity(facts.gpu.memory if facts.gpu is not None else None, facts.host_memory)


def _is_enough(needed: float, known: int | None) -> bool:
    return known is None or needed <= known

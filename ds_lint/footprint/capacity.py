"""Whether a run fits: what it takes against the memory of a GPU and of a host."""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.diagnostics.amounts import GIB
from ds_lint.footprint.estimate import fits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    from ds_lint.facts import Facts
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.estimate import Estimate

    Bound: TypeAlias = Literal["least", "likely", "most"]


# Of each GPU: a DGX A100 or H100 has 2 TB for eight, and instances in clouds hardly more
# (https://docs.nvidia.com/dgx/dgxh100-user-guide/introduction-to-dgxh100.html).
USUAL_HOST = 256 * GIB


class Capacity(NamedTuple):
    """The bytes of one GPU, of one node's host memory, and of /dev/shm in it; None if they are not known.

    ``least_gpu`` is that of the smallest GPU sold under the name, if the name does not tell the size: what does
    not fit on the largest fits on none, and what fits on the smallest fits on all.
    """

    gpu: int | None = None
    host: int | None = None
    least_gpu: int | None = None
    shared: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether the memory of the GPU or of the host is known."""
        return self.gpu is not None or self.host is not None

    def fit(self, needed: Estimate) -> Fit:
        """Whether a run fits."""
        on_gpu = fits(needed.gpu_bytes, self.gpu)
        if on_gpu and self.least_gpu is not None and needed.gpu_bytes.most > self.least_gpu:
            on_gpu = None
        return Fit(on_gpu, fits(needed.host_bytes, self.host))

    def holds(self, needed: Estimate, bound: Bound = "most") -> bool:
        """Whether what a run takes at the most, or by another bound, is there, as far as that is known."""
        return all(_is_enough(getattr(band, bound), known) for band, known in self._pairs(needed))

    def is_in_reach(self, needed: Estimate, bound: Bound = "most") -> bool:
        """Whether it is there, and where host memory is not known, whether a node may have what is likely."""
        usual = USUAL_HOST * needed.setup.ranks_per_node
        return self.holds(needed, bound) and (self.host is not None or needed.host_bytes.likely <= usual)

    def _pairs(self, needed: Estimate) -> tuple[tuple[Band, int | None], ...]:
        return (needed.gpu_bytes, self.least_gpu or self.gpu), (needed.host_bytes, self.host)


class Fit(NamedTuple):
    """Whether a run fits on the GPU and in host memory: True if the most does, False if the least does not."""

    gpu: bool | None
    host: bool | None


def capacity(facts: Facts) -> Capacity:
    """What the facts tell of the machine."""
    gpu, host, shared = facts.gpu, facts.host_memory, facts.shared_memory
    if gpu is None:
        return Capacity(None, host, shared=shared)
    return Capacity(gpu.memory, host, gpu.least_memory if gpu.least_memory < gpu.memory else None, shared)


def _is_enough(needed: float, known: int | None) -> bool:
    return known is None or needed <= known

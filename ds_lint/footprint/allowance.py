"""What a GPU holds beside the tensors of the run, as a stated allowance.

``schemas/allowances.json`` has the figures of each kind, with the source of each: an estimate from documents, or
measurements that ``python -m tools.gpu.allowances`` has put in its place.
"""

from __future__ import annotations

from ds_lint.footprint.band import Band, exactly
from ds_lint.knowledge import tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import AllowanceKind


def allowance(held: Band, ranks: int) -> Band:
    """The bytes beside the tensors on one GPU: CUDA, the libraries, and what the allocator cannot give out.

    ``held`` are the bytes of the tensors at the peak, of which fragmentation is a share: what the caching allocator of
    torch has reserved and cannot give out.
    """
    libraries = _of("context").plus(_of("matrix_workspaces")).plus(_of("communication") if ranks > 1 else exactly(0))
    share = _of("fragmentation")
    return libraries.plus(Band(held.least * share.least, held.likely * share.likely, held.most * share.most))


def _of(kind: AllowanceKind) -> Band:
    known = tables.load("allowances")[kind]
    return Band(known["least"], known["likely"], known["most"])

"""What the ranks of one node have in /dev/shm, which is memory of the node and has a limit of its own.

NCCL sends through segments there between GPUs that do not reach each other directly; with NVLink or peer-to-peer
access it needs next to none. The batches that workers of a data loader hand over lie there, too: for text they are
small, and those of images are not known.
"""

from __future__ import annotations

from ds_lint.footprint.band import NOTHING, Band

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup

# Bytes of one channel of a connection, as NCCL prints it, and the channels of its own choice on a machine without
# NVLink (https://github.com/NVIDIA/nccl/issues/1518: "2 coll channels", "size 9637888").
_SEGMENT = 9_637_888
_LIKELY_CHANNELS, _MOST_CHANNELS = 2, 32  # NCCL_MAX_CTAS
_NEIGHBOURS = 2  # of a rank in a ring
_OF_CONTAINERS = 64 * 2**20  # bytes that a container has by default; NCCL's documentation recommends 1 GB


def of_rank(setup: TrainingSetup) -> Band:
    """The bytes of one rank, if there are others on its node."""
    if setup.ranks_per_node == 1 or not setup.shares_memory:
        return NOTHING
    return Band(0, _LIKELY_CHANNELS * _SEGMENT, _NEIGHBOURS * _MOST_CHANNELS * _SEGMENT)


def may_be_too_small(room: int, needed: Band) -> bool:
    """Whether ranks may find too little: less than is likely, or the default of containers, as DS894 says."""
    return room < needed.likely or room <= min(_OF_CONTAINERS, needed.most)

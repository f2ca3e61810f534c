"""What a rank takes of its node's memory beside the model states: buffers, the rounding of page-locked memory, itself.

Sources: ``deepspeed/runtime/zero/stage_1_and_2.py``, ``stage3.py``, ``partition_parameters.py``,
``deepspeed/runtime/swap_tensor``; ``ATen/core/CachingHostAllocator.h`` of torch.
"""

from __future__ import annotations

from ds_lint.diagnostics.amounts import GIB
from ds_lint.footprint import swapping
from ds_lint.footprint.band import NOTHING, Band
from ds_lint.footprint.partition import largest_trained, share, sub_groups
from ds_lint.footprint.placed import Amount, amount
from ds_lint.footprint.remembered import OF_A_BATCH, remembered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup

# What a process takes beside its part of the run: the imports of torch, DeepSpeed and transformers alone take 0.26 GiB
# (tools/resident), less without transformers. With a CUDA context and its libraries, it is about 2 GiB
# (https://github.com/pytorch/pytorch/issues/113326), and more with data workers and older CUDA that loads all kernels.
PROCESS = Band(0.2 * GIB, 2.0 * GIB, 3.4 * GIB)


def buffers(setup: TrainingSetup) -> Amount:
    """The buffers of one rank in host memory that are not model states."""
    if setup.stage == 3:
        return swapping.buffers(setup)
    if setup.stage == 0 or setup.optimizer_offload is None:
        return Amount()
    return amount((share(setup) if setup.keeps_16_bit_copy else 0) + largest_trained(setup), setup.width)


@remembered(*OF_A_BATCH)
def rounding(setup: TrainingSetup) -> Band:
    """What page-locked buffers take more than they hold.

    torch takes the next power of two, and keeps the blocks that are given back. ``least`` is 0: a setting of torch
    (``pinned_max_round_threshold_mb``) and other backends do without, as DeepSpeed's own does.
    """
    if setup.pins_natively:
        return NOTHING
    more = sum(_block(size) - size for size in _page_locked(setup)) + sum(_block(size) for size in _given_back(setup))
    return Band(0, more, more) if more else NOTHING


def _page_locked(setup: TrainingSetup) -> list[int]:
    """The bytes of each page-locked buffer that one rank holds."""
    weights, optimizer = setup.parameter_offload, setup.optimizer_offload
    found: list[int] = []
    if setup.stage in (1, 2) and optimizer is not None and optimizer.is_pinned:
        mine = share(setup)
        found += [mine * setup.master_width, largest_trained(setup) * setup.width]  # gradients, and one on its way
        found += [mine * setup.master_width] if setup.pins_master_weights else []
        found += [mine * setup.width] if setup.keeps_16_bit_copy else []
    if setup.stage == 3 and optimizer is not None and optimizer.is_pinned:
        if optimizer.device == "cpu":
            found += [group.size * setup.master_width for group in sub_groups(setup)]
        found.append(share(setup) * setup.width)  # grad_partitions_flat_buffer
    if weights is not None and weights.device == "cpu":
        found.append(share(setup) * setup.width)  # param_groups_fp16_flat_cpu_memory, whatever pin_memory says
        if weights.is_pinned:
            found += [-(-one.size // setup.shards_of(one)) * setup.width for one in setup.tensors if not one.is_trained]
    return found


def _given_back(setup: TrainingSetup) -> list[int]:
    """The bytes of page-locked buffers that one rank has given back: the partitions before they lay in one buffer."""
    weights = setup.parameter_offload
    if weights is None or weights.device != "cpu" or not weights.is_pinned:
        return []
    return [-(-one.size // setup.shards_of(one)) * setup.width for one in setup.tensors if one.is_trained]


def _block(size: int) -> int:
    """The block that torch takes for so many bytes of page-locked memory."""
    return 1 << max(0, size - 1).bit_length()

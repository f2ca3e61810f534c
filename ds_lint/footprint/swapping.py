"""What DeepSpeed swaps to NVMe, and the buffers in host memory through which it does.

Source: deepspeed/runtime/swap_tensor. Sizes are those of the default ``aio`` section.
"""

from __future__ import annotations

from ds_lint.footprint.partition import sub_groups
from ds_lint.footprint.placed import FULL, Amount, amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.footprint.setup import TrainingSetup

SWAPPED = 2**20  # bytes; smaller tensors stay in memory (MIN_AIO_BYTES)
_ALIGNED = 2**10  # bytes (AIO_ALIGNED_BYTES)


def aligned(elements: int, width: int) -> int:
    """The elements that are written for so many."""
    block = _ALIGNED // width
    return block * -(-elements // block)


def below_alignment(elements: int, width: int) -> int:
    """The elements of a gradient that fill whole blocks."""
    block = _ALIGNED // width
    return block * (elements // block)


def buffers(setup: TrainingSetup) -> Amount:
    """The buffers that one rank swaps through, which have their size from the start and whatever is swapped."""
    optimizer, parameters = setup.optimizer_offload, setup.parameter_offload
    held = Amount()
    if optimizer is not None and optimizer.device == "nvme":
        largest = max((group.size for group in sub_groups(setup)), default=0)
        held = held.plus(amount(optimizer.buffer_count * aligned(largest, FULL), FULL))
    if parameters is not None and parameters.device == "nvme":
        held = held.plus(amount(parameters.buffer_count * aligned(parameters.buffer_size, setup.width), setup.width))
    return held

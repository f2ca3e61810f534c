"""What a GPU holds beside the tensors of the run, as a stated allowance.

Typed by hand, from the sources beside each figure; none of it was measured by ds-lint.
"""

from __future__ import annotations

from ds_lint.diagnostics.amounts import GIB
from ds_lint.memory.band import Band, exactly

MIB = 2**20

# The context of CUDA with the kernels that are loaded: 1 to 2 GB, says "Model training anatomy" in the documents of
# transformers, which shows 1343 MB on a V100 for one tensor of one number. Since CUDA 11.7 a kernel is loaded when it
# is first used ("Lazy Loading" in the CUDA C++ Programming Guide), hence the lower bound.
_CONTEXT = Band(300 * MIB, 600 * MIB, 2 * GIB)

# cublasSetWorkspace of the cuBLAS documentation recommends 32 MiB on Hopper and 4 MiB before; torch takes 8 MiB before
# Hopper (CublasHandlePool.cpp, ``:4096:2:16:8``), a workspace for cuBLASLt beside it, and one each for every stream.
_MATRIX_WORKSPACES = Band(8 * MIB, 64 * MIB, 256 * MIB)

# NCCL_BUFFSIZE of the NCCL documentation: 4 MiB by default for each pair of GPUs, of which a ring has one for each
# channel and direction; up to 32 channels (NCCL_MAX_CTAS). DeepSpeed has one communicator for the data-parallel ranks,
# and with ``overlap_comm``, hpZ or MiCS others.
_COMMUNICATION = Band(32 * MIB, 256 * MIB, GIB)

# What the caching allocator of torch has reserved and cannot give out. Blocks above 1 MiB lie in segments of at least
# 20 MiB, larger ones are rounded to 2 MiB (torch.cuda "Memory management", CUDACachingAllocator.cpp); of a run with
# changing sequence lengths, much more is split. torch and NVIDIA state no share; these are round numbers.
_FRAGMENTATION = Band(0.0, 0.05, 0.20)


def allowance(held: Band, ranks: int) -> Band:
    """The bytes beside the tensors on one GPU: CUDA, the libraries, and what the allocator cannot give out.

    ``held`` are the bytes of the tensors at the peak, of which fragmentation is a share.
    """
    libraries = _CONTEXT.plus(_MATRIX_WORKSPACES).plus(_COMMUNICATION if ranks > 1 else exactly(0))
    lost = Band(held.least * _FRAGMENTATION.least, held.likely * _FRAGMENTATION.likely, held.most * _FRAGMENTATION.most)
    return libraries.plus(lost)

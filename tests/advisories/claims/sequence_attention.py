"""The share of an attention's output that is right where `DistributedAttention` splits it over ranks: 1 where all is.

Arguments: the batch size, and the layout of the tensors: `sequence` for [sequence, batch, head, size] or `batch` for
[batch, sequence, head, size]; then the number of heads, 4 if left out. Each rank holds a part of the sequence; the
reference attends over the whole of it.
"""

import inspect
import sys

import deepspeed
import torch
from deepspeed.sequence.layer import DistributedAttention

BATCH, LAYOUT = int(sys.argv[1]), sys.argv[2]
HEADS = int(sys.argv[3]) if len(sys.argv) > 3 else 4
SEQUENCE, SIZE = 8, 4

deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
axis = 0 if LAYOUT == "sequence" else 1


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_: object) -> torch.Tensor:
    order = (1, 2, 0, 3) if LAYOUT == "sequence" else (0, 2, 1, 3)
    back = (2, 0, 1, 3) if LAYOUT == "sequence" else (0, 2, 1, 3)
    parts = [one.permute(*order) for one in (query, key, value)]
    return torch.nn.functional.scaled_dot_product_attention(*parts).permute(*back).contiguous()


torch.manual_seed(0)
shape = (SEQUENCE, BATCH, HEADS, SIZE) if LAYOUT == "sequence" else (BATCH, SEQUENCE, HEADS, SIZE)
whole = [torch.randn(shape) for _ in range(3)]
true = attend(*whole).chunk(ranks, dim=axis)[rank]
attention = DistributedAttention(attend, torch.distributed.group.WORLD, scatter_idx=2, gather_idx=axis)
parts = [one.chunk(ranks, dim=axis)[rank].contiguous() for one in whole]
# Newer releases are told which dimension is the batch; older ones take no such argument.
more = [1 - axis] if "batch_dim_idx" in inspect.signature(attention.forward).parameters else []
output = attention(*parts, *more)
if rank == 0:
    print(f"{float(torch.isclose(output, true, atol=1e-5).float().mean()):.3f}")

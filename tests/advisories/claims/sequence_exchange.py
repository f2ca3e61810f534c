"""The share of the query that each rank's attention gets right in Ulysses: 1 where all-to-all hands on whole sequences.

Arguments: the batch size and the dimension of the sequence (1: batch first, 0: sequence first). Of two ranks, each has
half of the sequence with all heads, and must see the whole sequence with half of the heads.
"""

import inspect
import sys

import deepspeed
import torch
from deepspeed.sequence.layer import DistributedAttention

BATCH, SEQUENCE_AT = int(sys.argv[1]), int(sys.argv[2])
LENGTH, HEADS, WIDTH = 8, 4, 3

deepspeed.init_distributed("gloo")
rank, ranks = deepspeed.comm.get_rank(), deepspeed.comm.get_world_size()
shape = [BATCH, LENGTH, HEADS, WIDTH] if SEQUENCE_AT == 1 else [LENGTH, BATCH, HEADS, WIDTH]
whole = torch.arange(BATCH * LENGTH * HEADS * WIDTH).float().reshape(shape)
mine = whole.chunk(ranks, dim=SEQUENCE_AT)[rank].contiguous()
seen = []


def attend(query: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
    seen.append(query.detach().clone())
    return query


layer = DistributedAttention(
    attend, deepspeed.comm.new_group(list(range(ranks))), scatter_idx=2, gather_idx=SEQUENCE_AT
)
# Releases from 0.14.5 on ask for the dimension of the batch.
takes_batch = "batch_dim_idx" in inspect.signature(layer.forward).parameters
layer(mine, mine, mine, **({"batch_dim_idx": 1 - SEQUENCE_AT} if takes_batch else {}))
wanted = whole.chunk(ranks, dim=2)[rank]
right = (seen[0] == wanted).float().mean() if seen[0].shape == wanted.shape else torch.zeros(())
print(f"{float(right):.3f}")

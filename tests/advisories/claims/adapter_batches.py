"""How many batches the second epoch of a loader in UlyssesSPDataLoaderAdapter has; the loader has 4 batches.

On one rank, which is a sequence-parallel group of its own.
"""

import deepspeed
import torch
from deepspeed import comm
from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPDataLoaderAdapter

deepspeed.init_distributed("gloo")
line = torch.arange(8).unsqueeze(0)
loader = [{"input_ids": line, "labels": line, "position_ids": line} for _ in range(4)]
adapter = UlyssesSPDataLoaderAdapter(
    loader, sp_rank=0, sp_group=comm.new_group([0]), sp_world_size=1, device=torch.device("cpu")
)
for _epoch in range(2):
    batches = sum(1 for _ in adapter)
print(f"{batches:.3f}")

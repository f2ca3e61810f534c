"""How many parts of a ZeRO checkpoint `ds_to_universal` puts in another place than that of their rank: 0 is right.

Arguments: `files` for the order in which it reads the files of the ranks, or `shards` for the order in which it joins
the parts of a parameter; and the number of ranks.
"""

import os
import sys
import tempfile

import torch
from deepspeed.checkpoint import ds_to_universal, reshape_utils

KIND, RANKS = sys.argv[1], int(sys.argv[2])

with tempfile.TemporaryDirectory() as folder:
    if KIND == "files":
        for rank in range(RANKS):
            open(f"{folder}/bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt", "w").close()
        names = [os.path.basename(path) for path in reshape_utils.get_zero_files(folder)]
        order = [int(name.split("_")[4]) for name in names]
    else:
        os.mkdir(f"{folder}/0")
        for rank in range(RANKS):
            # As dump_param_fragment names them.
            torch.save(torch.tensor([rank]), f"{folder}/0/exp_avg.{rank:0>2d}")
        joined = ds_to_universal._merge_zero_shards(folder, "exp_avg", 1, torch.Size([RANKS]))
        order = torch.cat([one.flatten() for one in joined]).tolist()
print(f"{sum(rank != place for place, rank in enumerate(order)):.3f}")

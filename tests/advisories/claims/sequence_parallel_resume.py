"""Whether ranks of one sequence-parallel group load a checkpoint: `completes`, or the error.

Arguments: the config as JSON, and `saved` for a checkpoint of the group itself or `plain` for one of a run without
sequence parallelism, whose weights alone are loaded.
"""

import json
import sys
import tempfile

import deepspeed
import torch
import torch.distributed
from deepspeed.runtime.sequence_parallel import parallel_state_sp
from torch import nn

WRITTEN, PLAIN = json.loads(sys.argv[1]), sys.argv[2] == "plain"


def new_engine(seed: int, mpu: object) -> deepspeed.DeepSpeedEngine:
    torch.manual_seed(seed)
    model = nn.Linear(16, 16)
    return deepspeed.initialize(
        model=model,
        model_parameters=model.parameters(),
        mpu=mpu,
        config={
            "train_micro_batch_size_per_gpu": 1,
            "zero_allow_untested_optimizer": True,
            "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
            **WRITTEN,
        },
    )[0]


deepspeed.init_distributed("gloo")
folder: list = [tempfile.mkdtemp()]
torch.distributed.broadcast_object_list(folder)
first = new_engine(0, None) if PLAIN else None
if first:
    first.save_checkpoint(folder[0], tag="tag")
parallel_state_sp.initialize_sequence_parallel(torch.distributed.get_world_size())
if not first:
    first = new_engine(0, parallel_state_sp)
    first.save_checkpoint(folder[0], tag="tag")
torch.distributed.barrier()
second = new_engine(1, parallel_state_sp)
path, _ = second.load_checkpoint(folder[0], tag="tag", load_module_only=PLAIN)
assert path, "no checkpoint was found"
for one, two in zip(first.module.parameters(), second.module.parameters(), strict=True):
    assert torch.equal(one, two), "other weights were loaded"
print("completes")

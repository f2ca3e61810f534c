"""Prints `completes` after the last rank of a group took its secondary part of a parameter (`zero_hpz_partition_size`).

Arguments: the elements of the parameter, and the ranks of the group, which are all ranks. The function of DeepSpeed
runs alone, with what it reads of the ranks given to it: a group of so many ranks takes no processes.
"""

import sys
import types

import deepspeed
import torch
from deepspeed.runtime.zero.partition_parameters import Init, ZeroParamStatus

ELEMENTS, RANKS = int(sys.argv[1]), int(sys.argv[2])

deepspeed.init_distributed("gloo")
ranks = types.SimpleNamespace(
    _aligned_size=lambda _parameter: -(-ELEMENTS // RANKS) * RANKS,
    dp_world_size=RANKS,
    num_ranks_in_param_group=RANKS,
    rank_in_group=RANKS - 1,
    remote_device="cpu",
    pin_memory=False,
    quantized_nontrainable_weights=False,
)
parameter = torch.nn.Parameter(torch.zeros(ELEMENTS))
parameter.ds_id, parameter.ds_numel = 0, ELEMENTS
parameter.ds_status, parameter.ds_secondary_tensor = ZeroParamStatus.AVAILABLE, None
Init._partition_param_sec(ranks, parameter)
print("completes")

"""Prints `completes` where a gate of DeepSpeed's MoE takes 8 tokens with these settings.

Arguments: k, the number of experts, the capacity factor, and `drop` or `keep` for the tokens above the capacity.
"""

import sys

import torch
from deepspeed.moe.sharded_moe import top1gating, topkgating

K, EXPERTS, FACTOR, DROPS = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "drop"

torch.manual_seed(0)
logits = torch.randn(8, EXPERTS)
if K == 1:
    top1gating(logits, capacity_factor=FACTOR, min_capacity=1, drop_tokens=DROPS, use_rts=False)
else:
    topkgating(logits, k=K, capacity_factor=FACTOR, min_capacity=1, drop_tokens=DROPS)
print("completes")

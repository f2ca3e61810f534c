"""The share of tokens that the top-k gate of DeepSpeed's MoE is right to keep: 1 where each expert has its likeliest.

Arguments: k, the capacity factor, and the number that the logits are shifted by, which changes no probability. The
reference sorts the probabilities of the tokens that chose an expert, in plain torch.
"""

import math
import sys

import torch
from deepspeed.moe.sharded_moe import topkgating

K, FACTOR, SHIFT = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
TOKENS, EXPERTS = 32, 8

torch.manual_seed(0)
logits = torch.randn(TOKENS, EXPERTS) + SHIFT
_, _, dispatched, _ = topkgating(logits, k=K, capacity_factor=FACTOR, min_capacity=1, drop_tokens=True)
kept = dispatched.any(dim=2)

probabilities = logits.softmax(dim=1)
chosen = torch.zeros(TOKENS, EXPERTS).scatter(1, probabilities.topk(K, dim=1).indices, 1.0).bool()
capacity = math.ceil(TOKENS / EXPERTS * FACTOR * K)
right = torch.zeros_like(chosen)
for expert in range(EXPERTS):
    candidates = torch.where(chosen[:, expert], probabilities[:, expert], torch.tensor(-1.0))
    likeliest = candidates.topk(min(capacity, int(chosen[:, expert].sum()))).indices
    right[likeliest, expert] = True
print(f"{float((kept & right).sum() / right.sum()):.3f}")

"""Whether the gate of a mixture of experts takes a batch of tokens: `completes`, or the error of the gate.

Arguments: the keywords of TopKGate as JSON and the number of tokens.
"""

import json
import sys

import deepspeed
import torch
from deepspeed.moe.sharded_moe import TopKGate

KEYWORDS, TOKENS = json.loads(sys.argv[1]), int(sys.argv[2])

torch.manual_seed(0)
deepspeed.init_distributed("gloo")
gate = TopKGate(model_dim=8, **KEYWORDS)
loss, combined, dispatched, *_ = gate(torch.randn(TOKENS, 8))
loss.backward()
assert combined.shape[:2] == dispatched.shape[:2] == (TOKENS, KEYWORDS["num_experts"])
print("completes")

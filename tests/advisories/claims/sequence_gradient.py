"""The length of an update over that of the true gradient step where the ranks share one sequence: 1 where it is whole.

Arguments: the config as JSON. Every rank computes a part of the sequence and adds to the loss the mean over that part;
DeepSpeed adds up the gradients of the ranks of a sequence, and so does the reference in plain torch.
"""

import copy
import json
import sys

import deepspeed
import torch
import torch.distributed
from torch import nn

RATE = 0.1

torch.manual_seed(0)
model = nn.Linear(16, 4, bias=False)
reference = copy.deepcopy(model)
deepspeed.init_distributed("gloo")
ranks, rank = torch.distributed.get_world_size(), torch.distributed.get_rank()
for other in range(ranks):
    group = torch.distributed.new_group([other])
    if other == rank:
        own = group


class Parallelism:
    """All ranks share one sequence; nothing else is parallel."""

    def __init__(self) -> None:
        whole = torch.distributed.group.WORLD
        for kind, group in (("model_parallel", own), ("tensor_model_parallel", own), ("data_parallel", own)):
            self._add(kind, group)
        for kind in ("sequence_parallel", "sequence_data_parallel"):
            self._add(kind, whole)

    def _add(self, kind: str, group: torch.distributed.ProcessGroup) -> None:
        setattr(self, f"get_{kind}_group", lambda: group)
        setattr(self, f"get_{kind}_world_size", lambda: torch.distributed.get_world_size(group))
        setattr(self, f"get_{kind}_rank", lambda: torch.distributed.get_rank(group))


engine, *_ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    mpu=Parallelism(),
    config={
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": 0.0,
        "zero_allow_untested_optimizer": True,
        "optimizer": {"type": "SGD", "params": {"lr": RATE}},
        **json.loads(sys.argv[1]),
    },
)
before = reference.weight.detach().clone()
samples = torch.randn(ranks, 8, 16)
for sample in samples:
    reference(sample).pow(2).mean().backward()
engine.backward(engine(samples[rank]).pow(2).mean())
engine.step()
true = reference.weight.grad * RATE
applied = before - engine.module.weight.detach()
if rank == 0:
    print(f"{float((applied * true).sum() / true.pow(2).sum()):.3f}")

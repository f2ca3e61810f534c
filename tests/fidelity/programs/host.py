"""What DeepSpeed keeps on the host with offload, and what it pins: `python host.py STAGE PIN_MEMORY SUB_GROUP_SIZE`."""

import json
import sys

import deepspeed
import torch
from answering import answer
from deepspeed.accelerator import get_accelerator

stage, pin_memory, sub_group_size = int(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
pinned = []
accelerator = get_accelerator()


def pin(tensor, *_, **__):
    """Instead of the real one, which pins nothing without a GPU."""
    pinned.append([sys._getframe(1).f_code.co_name, tensor.nbytes])
    return tensor


accelerator.pin_memory = pin
model = torch.nn.Sequential(*[torch.nn.Linear(96, 96, bias=False) for _ in range(6)])
sizes = [parameter.numel() for parameter in model.parameters()]
offload = {"device": "cpu", "pin_memory": pin_memory}
zero = {"stage": stage, "offload_optimizer": offload, "sub_group_size": sub_group_size}
if stage == 3:
    zero |= {"offload_param": offload, "stage3_param_persistence_threshold": 0}
engine, *_ = deepspeed.initialize(
    model=model,
    config={
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
        "bf16": {"enabled": True},
        "zero_optimization": zero,
    },
)
engine.backward(engine(torch.ones(1, 96, dtype=torch.bfloat16)).float().sum())
engine.step()
zero_optimizer = engine.optimizer
masters = zero_optimizer.fp32_partitioned_groups_flat if stage == 3 else zero_optimizer.single_partition_of_fp32_groups
states = [value for state in zero_optimizer.optimizer.state.values() for value in state.values()]
held = {
    "optimizer": [*masters, *(value for value in states if torch.is_tensor(value) and value.numel() > 1)],
    "gradients": [master.grad for master in masters if master.grad is not None],
    "weights": [],
}
if stage == 3:
    held["gradients"].append(zero_optimizer.grad_partitions_flat_buffer)
    held["weights"] = zero_optimizer.param_groups_fp16_flat_cpu_memory
sums = {name: sum(tensor.nbytes for tensor in tensors) for name, tensors in held.items()}
answer(sizes=sizes, held=sums, pinned=pinned)

"""Two ranks that shard a model as on GPUs, and assemble its weights on the CPU; prints the sums of rank 0 as JSON."""

import json
import os

import torch

from ds_lint.smoke.probe import cpu

cpu.install(lambda *_: None)


def main():
    """Train one step, and compare the assembled weights with those of an unsharded model."""
    from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType

    torch.distributed.init_process_group("nccl")
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    sums = {name: value.double().sum().item() for name, value in plain.state_dict().items()}
    model = FullyShardedDataParallel(plain, use_orig_params=True)
    model(torch.ones(1, 64)).sum().backward()
    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
        found = {name: value.double().sum().item() for name, value in model.state_dict().items()}
    if os.environ["RANK"] == "0":
        print(json.dumps({"devices": str(model.compute_device), "is_same": found == sums}))
    torch.distributed.destroy_process_group()


main()

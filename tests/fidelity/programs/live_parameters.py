"""How much a rank has gathered at once at stage 3: ``live_parameters.py JOBS``, a JSON list of models and configs.

For each, an engine trains a model of transformers for three steps, or with ``generates`` makes three tokens without
an optimizer: the coordinator of DeepSpeed notes the modules in the first ones and prefetches in the last. After every
fetch of a module the parameters are counted that are available or in flight, those left out that persist.
"""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

import deepspeed
import torch
import transformers
from answering import answer
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus
from deepspeed.runtime.zero.partitioned_param_coordinator import PartitionedParameterCoordinator

warnings.simplefilter("ignore")
STEPS = 3


def train(job: dict[str, Any]) -> dict[str, Any]:
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(**job["model"])
    config.use_cache = False
    model = getattr(transformers, job["class"])(config)
    if job["is_checkpointed"]:
        model.gradient_checkpointing_enable()
    generates = job.get("generates", False)
    trained = {} if generates else {"model_parameters": model.parameters()}
    engine, *_ = deepspeed.initialize(model=model, config=job["config"], **trained)
    most = 0
    fetch = PartitionedParameterCoordinator.fetch_sub_module

    def counted(self: Any, module: torch.nn.Module, forward: bool) -> None:
        nonlocal most
        fetch(self, module, forward)
        held = [
            parameter.ds_numel
            for parameter in model.parameters()
            if not parameter.ds_persist and parameter.ds_status != ZeroParamStatus.NOT_AVAILABLE
        ]
        most = max(most, sum(held))

    PartitionedParameterCoordinator.fetch_sub_module = counted
    try:
        if generates:
            ids = torch.randint(0, job["model"]["vocab_size"], (1, 8))
            engine.module.eval().generate(ids, max_new_tokens=STEPS, min_new_tokens=STEPS, do_sample=False)
        for _ in range(0 if generates else STEPS):
            ids = torch.randint(0, job["model"]["vocab_size"], (1, 8))
            engine.backward(engine(input_ids=ids, labels=ids).loss)
            engine.step()
    finally:
        PartitionedParameterCoordinator.fetch_sub_module = fetch
    held = sum(
        one.ds_tensor.numel() + (one.numel() if one.ds_persist else 0) for one in model.parameters()
    )  # a persistent parameter is there twice
    sizes = [(name, one.ds_numel) for name, one in model.named_parameters()]
    return {"tensors": sizes, "most": most, "held": held, "optimizer": type(engine.optimizer).__name__}


if __name__ == "__main__":
    deepspeed.init_distributed("gloo", verbose=False)
    answer(live=[train(job) for job in json.loads(sys.argv[1])])

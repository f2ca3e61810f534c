"""The most bytes at once in each phase of a run: ``peaks.py JOBS``, jobs as JSON; a line of JSON for each.

The engine is one rank of torch's fake group. Every storage counts from the operation that makes it until it is freed,
on whatever device: on a CPU that is what a GPU and the host hold together. Adam updates nothing here, because the
stand-ins of its kernels compute with temporary tensors that the real ones do not have.
"""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any

os.environ.update(RANK="0", LOCAL_RANK="0")

import deepspeed
import torch
import transformers
from in_children import each_in_a_child
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ds_lint.smoke.standins import kernels, ops

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Bytes(TorchDispatchMode):
    """The bytes of all storages that live, and the most that lived at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.now = self.most = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for tensor in tree_leaves(made):
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                self._see(tensor.untyped_storage())
        return made

    def _see(self, storage: Any) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self.sizes or not size:
            return
        self.sizes[place] = size
        self.now += size
        self.most = max(self.most, self.now)
        weakref.finalize(storage, self._forget, place)

    def _forget(self, place: int) -> None:
        self.now -= self.sizes.pop(place, 0)

    def taken(self) -> int:
        """The most bytes since the last question."""
        gc.collect()
        found, self.most = self.most, self.now
        return found


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The phases of one job; two steps, because optimizer states may be made at the first."""
    accelerator = deepspeed.get_accelerator()
    accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True
    accelerator.supported_dtypes = lambda: list(DTYPES.values())
    os.environ.update(WORLD_SIZE=str(job["ranks"]), RANK=str(job["rank"]))
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=job["rank"], world_size=job["ranks"])
    deepspeed.init_distributed(verbose=False)
    gather = torch.distributed.all_gather_into_tensor
    torch.distributed.all_gather_into_tensor = lambda output, given, group=None, async_op=False: (
        gather(output, given, group=group, async_op=True) if async_op else None
    )
    phases = {}
    with Bytes() as held:
        engine = deepspeed.initialize(model=_model(job), config=job["config"])[0]
        phases["initialization"] = held.taken()
        words = torch.ones(1, 2, dtype=torch.long)
        for _ in range(2):
            for _ in range(engine.gradient_accumulation_steps()):
                loss = engine(input_ids=words, labels=words).loss
                engine.backward(loss)
                phases["passes"] = max(phases.get("passes", 0), held.taken())
                engine.step()
                phases["update"] = max(phases.get("update", 0), held.taken())
    tensors = [[name, getattr(p, "ds_numel", p.numel())] for name, p in engine.module.named_parameters()]
    return {"phases": phases, "tensors": tensors}


def _model(job: dict[str, Any]) -> Any:
    config = transformers.LlamaConfig(**job["model"])
    make = transformers.LlamaForCausalLM  # imports torch._dynamo, which raises within zero.Init
    torch.set_default_dtype(DTYPES[job["dtype"]])
    if job["config"]["zero_optimization"]["stage"] == 3:
        with deepspeed.zero.Init(config_dict_or_path=job["config"]):
            model = make(config)
    else:
        model = make(config)
    torch.set_default_dtype(torch.float32)
    return model


def main() -> None:
    """Measure every job."""
    torch.set_num_threads(1)
    ops.install(builds=False)
    kernels._adam = lambda *_arguments, **_named: None
    each_in_a_child(measure)


main()

"""What one rank of many holds with FSDP: ``fsdp_held.py JOBS``, jobs as JSON; a line of JSON for each.

Accelerate reads the YAML of a job and shards the model, and the other ranks are torch's fake group. Every storage
counts from the operation that makes it until it is freed or made empty, as FSDP does with what it has gathered. The
model begins on the device without memory and gets its memory unit by unit, as one does that goes from a CPU to a GPU.
"""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
import weakref
from typing import Any

os.environ.update(RANK="0", LOCAL_RANK="0", ACCELERATE_TORCH_DEVICE="cpu")

import accelerate.state
import torch
import transformers
import yaml
from accelerate import Accelerator
from accelerate.commands import launch
from accelerate.utils import dataclasses
from accelerate.utils import launch as environments
from in_children import each_in_a_child
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ds_lint.smoke.standins import device, sharded

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}


class Bytes(TorchDispatchMode):
    """The bytes of all storages that live, and the most that lived at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: dict[int, int] = {}
        self.now = self.most = 0
        resize = torch.UntypedStorage.resize_
        seen = self

        def resized(storage: Any, size: int) -> Any:
            found = resize(storage, size)
            place = storage._cdata
            if place in seen.sizes:
                seen._add(size - seen.sizes[place])
                seen.sizes[place] = size
            else:
                seen._see(storage)
            return found

        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign]

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        for one in tree_leaves(made):
            tensor = getattr(one, "_local_tensor", one)  # what stands for all ranks has no memory
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                self._see(tensor.untyped_storage())
        return made

    def _see(self, storage: Any) -> None:
        place, size = storage._cdata, storage.nbytes()
        if place in self.sizes:
            self._add(size - self.sizes[place])
            self.sizes[place] = size
            return
        if not size:
            return
        self.sizes[place] = size
        weakref.finalize(storage, self._forget, place)
        self._add(size)

    def _add(self, size: int) -> None:
        self.now += size
        self.most = max(self.most, self.now)

    def _forget(self, place: int) -> None:
        self.now -= self.sizes.pop(place, 0)

    def taken(self) -> int:
        """The most bytes since the last question."""
        gc.collect()
        found, self.most = self.most, self.now
        return found


def measure(job: dict[str, Any]) -> dict[str, Any]:
    """The phases of one job, and what is held at the boundary of its last step by kind."""
    ranks, rank = job["ranks"], job.get("rank", 0)
    on_node = job.get("ranks_per_node", ranks)
    os.environ.update(
        WORLD_SIZE=str(ranks), RANK=str(rank), LOCAL_RANK=str(rank % on_node), LOCAL_WORLD_SIZE=str(on_node)
    )
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    device.stand_in_of_accelerate(accelerate.state)
    sharded.install(on_node)
    sharded.stand_in_of_plugin(dataclasses)
    os.environ.update(_variables(job["yaml"]))
    model = _model(job)
    tensors = [[name, p.numel(), p.requires_grad, list(p.shape)] for name, p in model.named_parameters()]
    phases: dict[str, int] = {}
    with Bytes() as held:
        accelerator = Accelerator()
        plugin = accelerator.state.fsdp_plugin
        _begin_without_memory(plugin)
        if job.get("by_trainer") and job.get("lora"):  # update_fsdp_plugin_peft in transformers/distributed/fsdp.py
            from peft.utils.other import fsdp_auto_wrap_policy

            plugin.auto_wrap_policy = fsdp_auto_wrap_policy(model)
        if accelerator.is_fsdp2:
            model, optimizer = _prepared(model, accelerator)
        else:
            model = accelerator.prepare(model)
            optimizer = accelerator.prepare(torch.optim.AdamW(_trained(model), foreach=False))
        phases["initialization"] = held.taken()
        phases["begun"] = held.now
        words = torch.ones(job.get("batch", 1), job.get("tokens", 2), dtype=torch.long)
        for _ in range(job.get("steps", 2)):
            for micro in range(job.get("accumulation", 1)):
                outputs = model(input_ids=words, labels=words)
                loss = outputs.loss
                if not job.get("keeps_outputs"):
                    del outputs
                phases["forward"] = max(phases.get("forward", 0), held.taken())
                phases["between"] = held.now
                is_last = micro + 1 == job.get("accumulation", 1)
                with contextlib.nullcontext() if is_last else accelerator.no_sync(model):
                    accelerator.backward(loss)
                del loss
                phases["backward"] = max(phases.get("backward", 0), held.taken())
            boundary = _by_kind(model, optimizer)
            boundary["all"] = held.now
            optimizer.step()
            optimizer.zero_grad()
            phases["update"] = max(phases.get("update", 0), held.taken())
            states = _by_kind(model, optimizer)
    return {"phases": phases, "tensors": tensors, "boundary": boundary, "states": states["optimizer_states"]}


def _variables(content: dict[str, Any]) -> dict[str, str]:
    """What ``accelerate launch`` makes of the YAML."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(content, file)
        file.flush()
        args = launch.launch_command_parser().parse_args(["--config_file", file.name, "train.py"])
        args, *_ = launch._validate_launch_command(args)
    made = environments.prepare_multi_gpu_env(args)
    if getattr(args, "use_parallelism_config", False):
        made = environments.prepare_extend_env_parallelism_config(args, made)
    return {name: value for name, value in made.items() if name.startswith(("FSDP_", "ACCELERATE_", "PARALLELISM_"))}


def _begin_without_memory(plugin: Any) -> None:
    """Weights that no rank has cannot be sent; what is held of them does not depend on it."""
    plugin.cpu_ram_efficient_loading = plugin.sync_module_states = False
    plugin.param_init_fn = lambda module: module.to_empty(device=torch.device("cpu"), recurse=False)


def _prepared(model: Any, accelerator: Any) -> tuple[Any, Any]:
    """FSDP 2 shards a model without memory, and gets memory for the shards afterwards."""
    model, _ = accelerator.prepare(model, torch.optim.AdamW(_trained(model), foreach=False))
    model.to_empty(device="cpu")
    return model, torch.optim.AdamW(_trained(model), foreach=False)


def _trained(model: Any) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _model(job: dict[str, Any]) -> Any:
    config = getattr(transformers, job["model"]["config"])(**job["model"]["values"])
    config._experts_implementation = "eager"
    torch.set_default_dtype(DTYPES[job.get("dtype", "bf16")])
    with torch.device("meta"):
        model = getattr(transformers, job["model"]["class"])(config)
    model.tie_weights()
    if job.get("lora"):
        import peft

        with torch.device("meta"):
            model = peft.get_peft_model(model, peft.LoraConfig(**job["lora"]), autocast_adapter_dtype=False)
    torch.set_default_dtype(torch.float32)
    if job.get("checkpointed"):
        model.gradient_checkpointing_enable()
        model.enable_input_require_grads()
    return model


def _by_kind(model: Any, optimizer: Any) -> dict[str, dict[str, int]]:
    """Elements by kind and dtype, each storage once and whole."""
    seen: set[int] = set()
    parameters = list(model.parameters())
    flat = [m._flat_param for m in model.modules() if getattr(m, "_flat_param", None) is not None]
    return {
        "parameters": _count([*flat, *parameters], seen),
        "gradients": _count([one.grad for one in (*flat, *parameters)], seen),
        "optimizer_states": _count([v for state in optimizer.state.values() for v in state.values()], seen),
    }


def _count(tensors: list[Any], seen: set[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for one in tensors:
        if one is None or not isinstance(one, torch.Tensor):
            continue
        tensor = getattr(one, "_local_tensor", one)
        storage = tensor.untyped_storage()
        if tensor.dim() == 0 or tensor.is_meta or not storage.nbytes() or storage.data_ptr() in seen:
            continue
        seen.add(storage.data_ptr())
        dtype = str(tensor.dtype).removeprefix("torch.")
        found[dtype] = found.get(dtype, 0) + storage.nbytes() // tensor.element_size()
    return found


def main() -> None:
    """Measure every job."""
    torch.set_num_threads(1)
    torch.Tensor.pin_memory = lambda tensor, *_: tensor  # type: ignore[method-assign]
    each_in_a_child(measure)


main()

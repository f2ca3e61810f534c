"""One process of a script that names CUDA in every way that scripts do; prints what it finds as JSON."""

import json
import sys

import torch

from ds_lint.smoke.probe import cpu

TOLD = []
cpu.install(TOLD.append)


def devices():
    """The types of the devices on which things are made and moved to."""
    x = torch.zeros(2)
    module = torch.nn.Linear(2, 2)
    found = [
        x.cuda(), x.cuda(0, non_blocking=True), x.to("cuda"), x.to("cuda:1"), x.to(0), x.to(device="cuda"),
        x.to(torch.device("cuda", 1)), x.to("cuda", torch.float16), x.to(torch.float16), x.to(x),
        torch.zeros(2, device="cuda"), torch.tensor([1], device="cuda:0"), torch.arange(3, device=0),
        torch.randn(2, device=torch.device("cuda")), torch.empty_like(x, device="cuda"), x.new_zeros(2, device="cuda"),
        torch.randint(0, 9, (2,), generator=torch.Generator(device="cuda").manual_seed(3), device="cuda"),
        torch.cuda.FloatTensor([1.0]), x.pin_memory(), next(module.cuda().parameters()),
        next(module.to("cuda", torch.bfloat16).parameters()), next(module.to(device="cuda:0").parameters()),
    ]  # fmt: skip
    with torch.device("meta"):
        assert torch.zeros(2).device.type == "meta"
    return sorted({one.device.type for one in found})


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape, device=x.device) + torch.arange(2).to(x.dtype)


def arithmetic():
    """Streams, autocast and compilers compute what they compute without a GPU."""
    x = torch.randn(4, 4)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    with torch.cuda.stream(torch.cuda.Stream()), torch.autocast("cuda"):
        half = x @ x
    with torch.cuda.amp.autocast(dtype=torch.bfloat16):
        brain = x @ x
    end.record()
    torch.cuda.synchronize()
    torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
    compiled = torch.compile(torch.nn.Linear(4, 4), backend="refuses")(x)
    return {
        "dtypes": [str(half.dtype), str(brain.dtype)],
        "scripted": scripted(torch.ones(2)).tolist(),
        "compiled": list(compiled.shape),
        "milliseconds": start.elapsed_time(end) > 0,
        "generator": isinstance(torch.default_generator, torch.Generator),
    }


@torch._dynamo.register_backend
def refuses(graph, inputs):
    raise RuntimeError("no compiler on this machine")


def groups():
    """A group that asks for NCCL, and a model that is sharded over it."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", 0))
    mean = torch.tensor([3.0])
    torch.distributed.all_reduce(mean, op=torch.distributed.ReduceOp.AVG)
    torch.distributed.barrier(device_ids=[torch.cuda.current_device()])
    other = torch.distributed.new_group(backend="nccl")
    mesh = torch.distributed.init_device_mesh("cuda", (1,))
    backends = [torch.distributed.get_backend(), torch.distributed.get_backend(other)]
    sharded = FullyShardedDataParallel(
        torch.nn.Linear(2, 2), device_id=torch.cuda.current_device(), sync_module_states=True
    )
    sharded(torch.ones(1, 2, device="cuda")).sum().backward()
    torch.distributed.destroy_process_group()
    return {"backends": backends, "mean": mean.item(), "mesh": mesh.device_type, "sharded": str(sharded.compute_device)}


def questions():
    """What the script asks ``torch.cuda``."""
    torch.cuda.set_device(1)
    torch.cuda.manual_seed_all(3)
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    return {
        "is_available": torch.cuda.is_available(),
        "of_a_library": torch.amp.GradScaler("cuda").is_enabled(),  # which asks the same
        "device_count": torch.cuda.device_count(),
        "current_device": torch.cuda.current_device(),
        "bf16": torch.cuda.is_bf16_supported(),
        "capability": torch.cuda.get_device_capability(),
        "major": torch.cuda.get_device_properties(0).major,
        "allocated": torch.cuda.max_memory_allocated() + torch.cuda.memory_allocated(),
    }


def accelerator():
    """What the script asks ``torch.accelerator``."""
    torch.accelerator.set_device_index(1)
    torch.accelerator.synchronize()
    with torch.accelerator.device_index(1):
        return {
            "is_available": torch.accelerator.is_available(),
            "device_count": torch.accelerator.device_count(),
            "type": torch.accelerator.current_accelerator().type,
            "index": torch.accelerator.current_device_index(),
        }


if __name__ == "__main__":
    random = torch.random.get_rng_state()
    found = {"questions": questions(), "devices": devices(), "accelerator": accelerator()}
    torch.random.set_rng_state(random)
    found |= {"arithmetic": arithmetic(), "groups": groups(), "told": sorted(set(TOLD))}
    json.dump(found, sys.stdout)
